#include "lab/text_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/philox.h"

namespace heddle {
namespace {

constexpr int64_t kWords = 60;
constexpr size_t kFollowers = 4;
// Chances of a word's followers, in percent, added up.
constexpr std::array<uint64_t, kFollowers> kChances = {50, 75, 90, 100};
constexpr uint64_t kSentenceEnd = 8;  // one word in so many ends a sentence

// Numbers one after the other.
class Dice {
 public:
  explicit Dice(std::string_view name) : stream_(0, name) {}
  uint64_t Below(uint64_t bound) { return stream_.Below(next_++, bound); }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// One to three syllables: a consonant, a vowel, sometimes another consonant.
std::string MakeWord(Dice& dice) {
  constexpr std::string_view kConsonants = "bdfgklmnprst", kVowels = "aeiou";
  std::string word;
  for (uint64_t syllables = 1 + dice.Below(3); syllables > 0; --syllables) {
    word += kConsonants[dice.Below(kConsonants.size())];
    word += kVowels[dice.Below(kVowels.size())];
    if (dice.Below(3) == 0) word += kConsonants[dice.Below(kConsonants.size())];
  }
  return word;
}

}  // namespace

Result<TextSource> TextSource::Of(std::string_view contents, const std::string& where,
                                  int64_t window) {
  // The held-out tenth is the smaller part.
  const int64_t least = 10 * window;
  const auto size = static_cast<int64_t>(contents.size());
  if (size < least) {
    return BadInput(where, fmt::format("a text of {} bytes is too short", size),
                    fmt::format("expected at least {}: a tenth is held out, and must hold {} "
                                "characters",
                                least, window));
  }
  std::array<bool, 256> occurs{};
  for (const char c : contents) occurs[static_cast<uint8_t>(c)] = true;
  std::array<uint8_t, 256> number{};
  TextSource text;
  for (size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) number[byte] = static_cast<uint8_t>(text.alphabet++);
  }
  if (text.alphabet < 2) {
    return BadInput(where, "all characters are the same", "expected a text");
  }
  text.symbols.reserve(contents.size());
  for (const char c : contents) text.symbols.push_back(number[static_cast<uint8_t>(c)]);
  text.training = size - size / 10;
  return text;
}

std::string MadeText(int64_t length) {
  HEDDLE_CHECK(length >= 0);
  Dice dice("lab.text.words");
  std::vector<std::string> words;
  std::vector<std::array<uint64_t, kFollowers>> followers(kWords);
  for (int64_t k = 0; k < kWords; ++k) words.push_back(MakeWord(dice));
  for (auto& list : followers) {
    for (uint64_t& follower : list) follower = dice.Below(kWords);
  }
  Dice walk("lab.text.walk");
  std::string text;
  uint64_t word = 0;
  while (static_cast<int64_t>(text.size()) < length) {
    text += words[word];
    text += walk.Below(kSentenceEnd) == 0 ? ".\n" : " ";
    const uint64_t chance = walk.Below(kChances.back());
    const auto which = std::upper_bound(kChances.begin(), kChances.end(), chance);
    word = followers[word][static_cast<size_t>(which - kChances.begin())];
  }
  text.resize(static_cast<size_t>(length));
  return text;
}

}  // namespace heddle
