#include "run/store/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "run/store/safetensors_header.h"

namespace heddle {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as in the reference implementation

// What a file will be: the text before the data, then the bytes of these tensors.
struct Layout {
  std::string head;
  std::vector<const StoredTensor*> tensors;
  int64_t bytes = 0;  // of the whole file
};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string LittleEndian(uint64_t value) {
  std::string text;
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    text += static_cast<char>((value >> (8 * byte)) & 0xff);
  }
  return text;
}

uint64_t FromLittleEndian(std::string_view text) {
  uint64_t value = 0;
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    value |= uint64_t{static_cast<unsigned char>(text[byte])} << (8 * byte);
  }
  return value;
}

Status CheckGiven(const StoredTensor& tensor, const std::string& where) {
  if (tensor.name == "__metadata__") {
    return BadInput(where, "this name is the format's own", "rename the tensor");
  }
  HEDDLE_ASSIGN(const int64_t expected, StoredBytes(tensor.shape, tensor.dtype, where));
  if (static_cast<uint64_t>(expected) == tensor.bytes.size()) return Ok();
  return BadInput(where, fmt::format("has {} bytes", tensor.bytes.size()),
                  fmt::format("expected {} by its shape and type", expected));
}

Result<Layout> LayoutOf(std::span<const StoredTensor> tensors, const SafetensorsMetadata& metadata,
                        const std::string& file) {
  Layout layout;
  for (const StoredTensor& tensor : tensors) layout.tensors.push_back(&tensor);
  std::stable_sort(layout.tensors.begin(), layout.tensors.end(),
                   [](const StoredTensor* a, const StoredTensor* b) {
                     return SizeOf(a->dtype) > SizeOf(b->dtype);
                   });
  SafetensorsHeader header;
  header.metadata = metadata;
  std::set<std::string_view> names;
  int64_t at = 0;
  for (const StoredTensor* tensor : layout.tensors) {
    const std::string where = TensorPlace(file, tensor->name);
    HEDDLE_RETURN_IF_ERROR(CheckGiven(*tensor, where));
    if (!names.insert(tensor->name).second) {
      return BadInput(where, "is there twice", "every name once");
    }
    const int64_t end = at + static_cast<int64_t>(tensor->bytes.size());
    header.entries.push_back({tensor->name, tensor->dtype, tensor->shape, at, end});
    at = end;
  }
  HEDDLE_ASSIGN(std::string json, PrintSafetensorsHeader(header, file));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMostHeaderBytes) {
    return BadInput(file, fmt::format("its header has {} bytes", json.size()),
                    fmt::format("at most {} are read back: shorter names", kMostHeaderBytes));
  }
  layout.head = LittleEndian(json.size()) + json;
  layout.bytes = static_cast<int64_t>(layout.head.size()) + at;
  return layout;
}

// Every byte of the data belongs to one tensor. Sorts the entries by place.
Status CheckCoverage(std::vector<SafetensorsEntry>& entries, int64_t data_bytes,
                     const std::string& file) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  int64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string where = TensorPlace(file, entry.name);
    const std::string found = fmt::format("lies at [{}, {}]", entry.begin, entry.end);
    if (entry.end > data_bytes) {
      return BadInput(where, found,
                      fmt::format("the data has {} bytes; the file is truncated", data_bytes));
    }
    if (entry.begin != covered) {
      return BadInput(where, found,
                      fmt::format("expected to begin at {}: {}", covered,
                                  entry.begin < covered ? "it overlaps the tensor before it"
                                                        : "there is a hole before it"));
    }
    covered = entry.end;
  }
  if (covered == data_bytes) return Ok();
  return BadInput(file, fmt::format("{} bytes of data", data_bytes),
                  fmt::format("expected {}: the rest belongs to no tensor", covered));
}

}  // namespace

Result<WrittenSafetensors> WriteSafetensors(const std::string& path,
                                            std::span<const StoredTensor> tensors,
                                            const SafetensorsMetadata& metadata) {
  HEDDLE_ASSIGN(const Layout layout, LayoutOf(tensors, metadata, path));
  HEDDLE_ASSIGN(AtomicFile file, AtomicFile::Create(path, layout.bytes));
  Hash hash;
  HEDDLE_RETURN_IF_ERROR(file.Append(layout.head));
  hash.AddPart(layout.head);
  for (const StoredTensor* tensor : layout.tensors) {
    HEDDLE_RETURN_IF_ERROR(file.Append(tensor->bytes));
    hash.AddPart(TextOf(tensor->bytes));
  }
  HEDDLE_RETURN_IF_ERROR(file.Commit());
  hash.Add(layout.bytes);
  return WrittenSafetensors{layout.bytes, hash.Hex()};
}

Result<std::string> SafetensorsText(std::span<const StoredTensor> tensors,
                                    const SafetensorsMetadata& metadata, const std::string& file) {
  HEDDLE_ASSIGN(const Layout layout, LayoutOf(tensors, metadata, file));
  std::string text = layout.head;
  for (const StoredTensor* tensor : layout.tensors) text += TextOf(tensor->bytes);
  return text;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  // A pipe would keep open() waiting; it is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "open");
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return BadInput(path, "is not a regular file", "name a .safetensors file");
  }
  const size_t bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) {
    ::close(fd);
    return Parse("", path);
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  const Error failed = SystemError(path, "map into memory");
  ::close(fd);
  if (memory == MAP_FAILED) return failed;
  std::shared_ptr<const void> owner(memory, [bytes](void* mapped) { ::munmap(mapped, bytes); });
  return Check(std::move(owner), {static_cast<const char*>(memory), bytes}, path);
}

Result<SafetensorsFile> SafetensorsFile::Parse(std::string contents, const std::string& file) {
  const auto owner = std::make_shared<const std::string>(std::move(contents));
  return Check(owner, *owner, file);
}

Result<SafetensorsFile> SafetensorsFile::Check(std::shared_ptr<const void> owner,
                                               std::string_view contents, const std::string& file) {
  if (contents.size() < kLengthBytes) {
    return BadInput(file, fmt::format("has {} bytes", contents.size()),
                    "expected 8 bytes with the size of the header; the file is truncated");
  }
  const uint64_t header_bytes = FromLittleEndian(contents);
  if (header_bytes > kMostHeaderBytes || header_bytes > contents.size() - kLengthBytes) {
    return BadInput(file,
                    fmt::format("its header should have {} bytes, and {} follow", header_bytes,
                                contents.size() - kLengthBytes),
                    "the file is truncated or not a safetensors file");
  }
  const std::string_view json = contents.substr(kLengthBytes, header_bytes);
  const std::string_view data = contents.substr(kLengthBytes + header_bytes);
  HEDDLE_ASSIGN(SafetensorsHeader header, ParseSafetensorsHeader(json, file));
  HEDDLE_RETURN_IF_ERROR(CheckCoverage(header.entries, static_cast<int64_t>(data.size()), file));

  SafetensorsFile result;
  result.owner_ = std::move(owner);
  result.contents_ = contents;
  result.metadata_ = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    const std::string_view bytes =
        data.substr(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
    result.index_[entry.name] = result.tensors_.size();
    result.tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                               std::as_bytes(std::span(bytes))});
  }
  return result;
}

const StoredTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace heddle
