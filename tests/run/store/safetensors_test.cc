#include "run/store/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "run/store/stored_values.h"
#include "support/child_process.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A file with this header, padded to 8 bytes, and so many zero bytes of data.
std::string FileOf(std::string header, size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text;
  for (size_t byte = 0; byte < 8; ++byte) {
    text += static_cast<char>((uint64_t{header.size()} >> (8 * byte)) & 0xff);
  }
  return text + header + std::string(data_bytes, '\0');
}

std::string Refusal(const std::string& header, size_t data_bytes) {
  return ErrorOf(SafetensorsFile::Parse(FileOf(header, data_bytes), "f"));
}

std::vector<std::string> NamesOf(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(SafetensorsTest, ReadsWhatWasWritten) {
  const ScratchFolder scratch;
  StoredValues values;
  values.Add<float>("fc0.w", DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  values.Add<double>("fc0.b", DType::kF64, {2}, {0.5, -0.25});
  values.Add<int64_t>("step", DType::kI64, {}, {41});
  values.Add<uint16_t>("half", DType::kF16, {1}, {0x3c00});
  values.Add<uint16_t>("brain", DType::kBf16, {1, 1}, {0x3f80});
  const auto written =
      WriteSafetensors(scratch / "f", values.tensors(), {{"model", "tiny"}, {"a", ""}});
  ASSERT_TRUE(written.ok()) << ErrorOf(written);
  EXPECT_EQ(written.value().hash, HashOf(ReadFile(scratch / "f").value()));
  EXPECT_EQ(static_cast<uintmax_t>(written.value().bytes),
            std::filesystem::file_size(scratch / "f"));

  const auto file = SafetensorsFile::Open(scratch / "f");
  ASSERT_TRUE(file.ok()) << ErrorOf(file);
  // Wide types first: each is aligned.
  EXPECT_THAT(NamesOf(file.value()), ElementsAre("fc0.b", "step", "fc0.w", "half", "brain"));
  EXPECT_EQ(file.value().metadata(), (SafetensorsMetadata{{"a", ""}, {"model", "tiny"}}));
  const StoredTensor* weight = file.value().Find("fc0.w");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dtype, DType::kF32);
  EXPECT_THAT(weight->shape, ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf<float>(*weight), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight->bytes.data()) % 4, 0U);
  EXPECT_THAT(file.value().Find("step")->shape, ElementsAre());
  EXPECT_THAT(ValuesOf<int64_t>(*file.value().Find("step")), ElementsAre(41));
  EXPECT_EQ(file.value().Find("fc0"), nullptr);
}

// Byte by byte, so that other programs can rely on it.
TEST(SafetensorsTest, TheBytesOfAFile) {
  StoredValues values;
  values.Add<uint16_t>("x", DType::kF16, {2, 1}, {0x0201, 0x0403});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"x":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}})";
  std::string expected = FileOf(header, 0);
  expected += "\x01\x02\x03\x04";
  EXPECT_EQ(SafetensorsText(values.tensors(), {{"k", "v"}}, "f").value(), expected);
  EXPECT_EQ((expected.size() - 4) % 8, 0U);
}

TEST(SafetensorsTest, TensorsOutliveTheFileObjectTheyWereReadBy) {
  const ScratchFolder scratch;
  StoredValues values;
  values.Add<float>("x", DType::kF32, {1}, {7});
  ASSERT_TRUE(WriteSafetensors(scratch / "f", values.tensors(), {}).ok());
  SafetensorsFile copy = SafetensorsFile::Open(scratch / "f").value();
  std::filesystem::remove(scratch / "f");
  const SafetensorsFile moved = std::move(copy);
  EXPECT_THAT(ValuesOf<float>(*moved.Find("x")), ElementsAre(7));
}

TEST(SafetensorsTest, NothingAndNearlyNothing) {
  EXPECT_EQ(SafetensorsText({}, {}, "f").value(), FileOf("{}", 0));
  EXPECT_TRUE(SafetensorsFile::Parse(FileOf("{}", 0), "f").value().tensors().empty());
  StoredValues values;
  values.Add<float>("empty", DType::kF32, {3, 0, 5}, {});
  values.Add<float>("also empty", DType::kF32, {0}, {});
  values.Add<float>("full", DType::kF32, {1}, {1});
  values.Add<float>("empty at the end", DType::kF32, {0}, {});
  const std::string text = SafetensorsText(values.tensors(), {}, "f").value();
  const SafetensorsFile file = SafetensorsFile::Parse(text, "f").value();
  EXPECT_EQ(file.tensors().size(), 4U);
  EXPECT_THAT(file.Find("empty")->shape, ElementsAre(3, 0, 5));
  EXPECT_TRUE(file.Find("empty")->bytes.empty());
}

TEST(SafetensorsTest, NamesWithOddCharacters) {
  StoredValues values;
  const std::vector<std::string> names = {
      "",  "a/b", "quote\"back\\slash",        "line\nbreak", "größe 重み",
      " ", "{}",  std::string("zero\0byte", 9)};
  for (const std::string& name : names) values.Add<float>(name, DType::kF32, {1}, {1});
  const std::string text = SafetensorsText(values.tensors(), {{"k\"", "\n"}}, "f").value();
  const SafetensorsFile file = SafetensorsFile::Parse(text, "f").value();
  EXPECT_EQ(NamesOf(file), names);
  EXPECT_EQ(file.metadata().at("k\""), "\n");
}

TEST(SafetensorsTest, WhatCannotBeWritten) {
  StoredValues values;
  values.Add<float>("w", DType::kF32, {3}, {1, 2});
  EXPECT_EQ(ErrorOf(SafetensorsText(values.tensors(), {}, "f")),
            "f: tensor \"w\": has 8 bytes\n  hint: expected 12 by its shape and type");
  EXPECT_THAT(ErrorOf(SafetensorsText(StoredValues()
                                          .Add<float>("w", DType::kF32, {}, {1})
                                          .Add<float>("w", DType::kF32, {}, {1})
                                          .tensors(),
                                      {}, "f")),
              HasSubstr("is there twice"));
  const auto refusal = [](const std::string& name, std::vector<int64_t> shape) {
    const StoredTensor tensor = {name, DType::kF64, std::move(shape), {}};
    return ErrorOf(SafetensorsText(std::span(&tensor, 1), {}, "f"));
  };
  EXPECT_THAT(refusal("__metadata__", {0}), HasSubstr("the format's own"));
  EXPECT_THAT(refusal("w", {-1}), HasSubstr("shape is [-1]"));
  EXPECT_THAT(refusal("w", {1LL << 62, 1LL << 62, 0}), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(refusal("\xff", {0}), HasSubstr("is not UTF-8"));
  EXPECT_THAT(ErrorOf(SafetensorsText({}, {{"k", "\xc3"}}, "f")), HasSubstr("metadata \"k\""));
}

TEST(SafetensorsTest, FilesThatAreTooShort) {
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse("", "f")), HasSubstr("f: has 0 bytes"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse("1234567", "f")), HasSubstr("has 7 bytes"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse(std::string(8, '\0'), "f")),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse(std::string(16, '\xff'), "f")),
              HasSubstr("should have 18446744073709551615 bytes, and 8 follow"));
  StoredValues values;
  values.Add<float>("w", DType::kF32, {2, 2}, {1, 2, 3, 4});
  const std::string text = SafetensorsText(values.tensors(), {{"k", "v"}}, "f").value();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(SafetensorsFile::Parse(text.substr(0, size), "f").ok()) << size;
  }
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse(text.substr(0, text.size() - 1), "f")),
              HasSubstr("tensor \"w\": lies at [0, 16]\n  hint: the data has 15 bytes"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Parse(text + "x", "f")),
              HasSubstr("17 bytes of data\n  hint: expected 16: the rest belongs to no tensor"));
}

TEST(SafetensorsTest, TensorsThatOverlapOrLeaveHoles) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}";
  };
  EXPECT_EQ(Refusal(two("[8,16]", "[0,8]"), 16), "");  // any order is fine
  EXPECT_THAT(
      Refusal(two("[0,8]", "[4,12]"), 12),
      HasSubstr("tensor \"b\": lies at [4, 12]\n  hint: expected to begin at 8: it overlaps"));
  EXPECT_THAT(Refusal(two("[0,8]", "[0,8]"), 8), HasSubstr("overlaps"));
  EXPECT_THAT(Refusal(two("[0,8]", "[9,17]"), 17), HasSubstr("there is a hole before it"));
  EXPECT_THAT(Refusal(two("[8,16]", "[16,24]"), 24), HasSubstr("tensor \"a\": lies at [8, 16]"));
  EXPECT_THAT(Refusal(two("[8,0]", "[0,8]"), 16), HasSubstr("data_offsets is [8, 0]"));
  EXPECT_THAT(Refusal(two("[0,8]", "[8,16]"), 12), HasSubstr("the file is truncated"));
}

TEST(SafetensorsTest, FieldsThatAreWrong) {
  const auto fields = [](const std::string& text) { return Refusal("{\"w\":{" + text + "}}", 8); };
  const std::string type = R"("dtype":"F32",)";
  const std::string shape = R"("shape":[2],)";
  const std::string offsets = R"("data_offsets":[0,8])";
  EXPECT_EQ(fields(type + shape + offsets), "");
  EXPECT_EQ(
      fields(R"("dtype":"F8_E4M3",)" + shape + offsets),
      "f: tensor \"w\": dtype \"F8_E4M3\" is unknown\n  hint: expected F64, F32, BF16, F16, I64");
  EXPECT_THAT(fields(shape + offsets), HasSubstr("dtype is missing"));
  EXPECT_THAT(fields(type + offsets), HasSubstr("shape is missing"));
  EXPECT_THAT(fields(R"("dtype":"F32","shape":[2])"), HasSubstr("data_offsets is missing"));
  EXPECT_THAT(fields(type + type + shape + offsets), HasSubstr("\"dtype\" is there twice"));
  EXPECT_THAT(fields(type + R"("shape":[3],)" + offsets),
              HasSubstr("data_offsets [0, 8] hold 8 bytes\n  hint: expected 12: shape [3] of f32"));
  for (const char* wrong : {"-2", "2.0", "1e400", "null", "true", "\"2\"", "[2]", "{}",
                            "18446744073709551615", "18446744073709551616"}) {
    EXPECT_THAT(fields(type + "\"shape\":[" + wrong + "]," + offsets),
                AllOf(HasSubstr("f"), testing::Not("")))
        << wrong;
    EXPECT_NE(fields(type + shape + "\"data_offsets\":[0," + wrong + "]"), "") << wrong;
  }
  EXPECT_THAT(fields(type + "\"shape\":2," + offsets),
              HasSubstr("shape: found 2\n  hint: expected a list of whole numbers"));
  EXPECT_THAT(fields(R"("dtype":7,)" + shape + offsets), HasSubstr("dtype: found 7"));
  EXPECT_THAT(fields(R"("dtype":["F32"],)" + shape + offsets), HasSubstr("dtype: found a list"));
  EXPECT_THAT(fields(type + shape + R"("data_offsets":[0,8,8])"), HasSubstr("more than 2 numbers"));
  EXPECT_THAT(fields(type + shape + R"("data_offsets":[0])"), HasSubstr("data_offsets is [0]"));
  EXPECT_THAT(fields(type + shape + offsets + ",\"strides\":[1]"),
              HasSubstr("unknown field \"strides\""));
}

TEST(SafetensorsTest, HugeDeclaredSizes) {
  const auto shaped = [](const std::string& shape, const std::string& end) {
    return Refusal(
        R"({"w":{"dtype":"F64","shape":)" + shape + R"(,"data_offsets":[0,)" + end + "]}}", 8);
  };
  EXPECT_THAT(shaped("[1152921504606846976]", "8"), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(shaped("[4294967296,4294967296]", "0"), HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(shaped("[1152921504606846975]", "9223372036854775800"),
              HasSubstr("the data has 8 bytes"));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_THAT(shaped("[" + ones + "]", "8"), HasSubstr("more than 64 numbers"));
}

TEST(SafetensorsTest, HeadersThatAreNotATableOfTensors) {
  for (const char* header : {"[]", "7", "null", "\"text\"", "{", "{}}", "{} {}", "{\"a\":}",
                             "{a:1}", "\xef\xbb\xbf{\"\xff\":1}"}) {
    EXPECT_THAT(Refusal(header, 0), HasSubstr("header")) << header;
  }
  EXPECT_THAT(Refusal(R"({"w":7})", 0),
              HasSubstr("tensor \"w\": found 7\n  hint: expected a table"));
  EXPECT_THAT(Refusal(R"({"__metadata__":[]})", 0),
              HasSubstr("table \"__metadata__\": found a list"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"k":1}})", 0),
              HasSubstr("table \"__metadata__\": \"k\": found 1\n  hint: expected text"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"k":"","k":""}})", 0), HasSubstr("\"k\" is there twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("is there twice"));
  const std::string w = R"("w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(Refusal("{" + w + "," + w + "}", 0), HasSubstr("tensor \"w\": is there twice"));
  EXPECT_FALSE(SafetensorsFile::Parse(FileOf(std::string(1 << 20, '['), 0), "f").ok());
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_FALSE(SafetensorsFile::Parse(FileOf(deep, 0), "f").ok());
}

TEST(SafetensorsTest, ManyTensorsAreQuick) {
  StoredValues values;
  for (int i = 0; i < 50000; ++i) {
    values.Add<float>("layer." + std::to_string(i), DType::kF32, {1}, {static_cast<float>(i)});
  }
  const std::string text = SafetensorsText(values.tensors(), {}, "f").value();
  const SafetensorsFile file = SafetensorsFile::Parse(text, "f").value();
  EXPECT_THAT(ValuesOf<float>(*file.Find("layer.49999")), ElementsAre(49999));
}

TEST(SafetensorsTest, PathsThatAreNotFiles) {
  const ScratchFolder scratch;
  EXPECT_THAT(ErrorOf(SafetensorsFile::Open(scratch / "none")), HasSubstr("none: cannot open"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Open(scratch.path())), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(SafetensorsFile::Open(scratch / "pipe")), HasSubstr("not a regular file"));
  ASSERT_TRUE(WriteFile(scratch / "empty", "").ok());
  EXPECT_THAT(ErrorOf(SafetensorsFile::Open(scratch / "empty")), HasSubstr("has 0 bytes"));
  EXPECT_THAT(ErrorOf(SafetensorsFile::Open(scratch / "empty/below")), HasSubstr("cannot open"));
  ASSERT_TRUE(WriteSafetensors(scratch / "f", {}, {}).ok());
  std::filesystem::create_symlink("f", scratch / "link");
  EXPECT_TRUE(SafetensorsFile::Open(scratch / "link").ok());
  EXPECT_FALSE(WriteSafetensors(scratch / "f/below", {}, {}).ok());
}

TEST(SafetensorsTest, AFullDiskLeavesTheOldFile) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteSafetensors(scratch / "f", {}, {}).ok());
  StoredValues values;
  values.Add<float>("w", DType::kF32, {5000}, std::vector<float>(5000, 1.0F));
  const std::string said = InChild([&] {
    LimitFileSize(8192);
    return ErrorOf(WriteSafetensors(scratch / "f", values.tensors(), {}));
  });
  EXPECT_THAT(said, HasSubstr("20072 bytes are wanted"));
  EXPECT_TRUE(SafetensorsFile::Open(scratch / "f").ok());
  EXPECT_THAT(scratch.Names(), ElementsAre("f"));
}

RC_GTEST_PROP(SafetensorsProperty, AnyTensorsReadBack, ()) {
  StoredValues values;
  const int count = *rc::gen::inRange(0, 8);
  for (int i = 0; i < count; ++i) {
    const auto dtype = static_cast<DType>(*rc::gen::inRange(0, kDTypeCount));
    const auto shape = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 4));
    if (shape.size() > 5) continue;
    size_t bytes = static_cast<size_t>(SizeOf(dtype));
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    const auto data =
        *rc::gen::container<std::vector<uint8_t>>(bytes, rc::gen::arbitrary<uint8_t>());
    values.Add<uint8_t>("t" + std::to_string(i), dtype, shape, data);
  }
  const std::string text = SafetensorsText(values.tensors(), {}, "f").value();
  const SafetensorsFile file = SafetensorsFile::Parse(text, "f").value();
  RC_ASSERT(file.tensors().size() == values.tensors().size());
  for (const StoredTensor& given : values.tensors()) {
    const StoredTensor* found = file.Find(given.name);
    RC_ASSERT(found != nullptr && found->dtype == given.dtype && found->shape == given.shape);
    RC_ASSERT(ValuesOf<uint8_t>(*found) == ValuesOf<uint8_t>(given));
    const auto offset = reinterpret_cast<const char*>(found->bytes.data()) - file.contents().data();
    RC_ASSERT(offset % SizeOf(given.dtype) == 0);
  }
}

}  // namespace
}  // namespace heddle
