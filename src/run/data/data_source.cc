#include "run/data/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "run/data/cifar_data.h"
#include "run/data/libsvm_data.h"
#include "run/data/synthetic.h"
#include "run/data/text_data.h"

namespace heddle {
namespace {

const std::vector<std::string> kKinds = {"synthetic", "text", "libsvm", "cifar", "cifar100"};

// A file that is there and holds something; errors name the spec before the file.
Result<std::string> ReadData(const std::string& spec, const std::string& path) {
  Result<std::string> contents = ReadFile(path);
  if (!contents.ok()) {
    const Error& error = contents.error();
    return BadInput(fmt::format("{}: {}", spec, error.where), error.what,
                    "expected a file that can be read: " + error.hint);
  }
  if (contents.value().empty()) {
    return BadInput(spec, fmt::format("{} is empty", path), "give a file that holds samples");
  }
  return contents;
}

Result<std::unique_ptr<DataSource>> OpenCifar(const std::string& spec, std::string_view paths,
                                              const CifarLayout& layout, const Graph& graph,
                                              const DataOptions& options) {
  CifarRecords records;
  for (const std::string_view path : SplitAt(paths, ',')) {
    if (path.empty()) {
      return BadInput(spec, "a file's name is empty", "expected PATH,PATH,… without spaces");
    }
    HEDDLE_ASSIGN(const std::string bytes, ReadData(spec, std::string(path)));
    const std::string where = fmt::format("{}: {}", spec, path);
    HEDDLE_RETURN_IF_ERROR(AddCifarRecords(bytes, layout, where, records));
  }
  return MakeCifarData(std::move(records), layout, spec, graph, options);
}

}  // namespace

Result<std::unique_ptr<DataSource>> OpenData(const std::string& spec, const Graph& graph,
                                             const DataOptions& options) {
  if (!(options.validation >= 0 && options.validation < 1)) {
    return BadInput(spec, fmt::format("cannot hold out {} of the samples", options.validation),
                    "expected a fraction of at least 0 and below 1, as in 0.1");
  }
  if (spec == "synthetic") return MakeSyntheticData(graph, options);
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const bool known = std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
  if (!known) {
    return BadInput(fmt::format("data \"{}\"", spec), "no such source of data",
                    SuggestName(kind, kKinds) + "; as in text:PATH");
  }
  if (kind == "synthetic") {
    return BadInput(spec, "synthetic data is in no file", "write synthetic alone");
  }
  const std::string path = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (path.empty()) {
    return BadInput(spec, "no file is named", fmt::format("expected {}:PATH", kind));
  }
  if (kind == "cifar") return OpenCifar(spec, path, kCifar10, graph, options);
  if (kind == "cifar100") return OpenCifar(spec, path, kCifar100, graph, options);
  HEDDLE_ASSIGN(std::string contents, ReadData(spec, path));
  if (kind == "text") return MakeTextData(std::move(contents), spec, graph, options);
  HEDDLE_ASSIGN(LibsvmRows rows, ParseLibsvm(contents, spec));
  return MakeLibsvmData(std::move(rows), spec, graph, options);
}

Result<std::string> DataHash(const std::string& spec) {
  const size_t colon = spec.find(':');
  if (colon == std::string::npos) return std::string();
  const bool several = spec.starts_with("cifar");
  const std::string paths = spec.substr(colon + 1);
  Hash hash;
  for (const std::string_view path : SplitAt(paths, several ? ',' : '\0')) {
    HEDDLE_ASSIGN(const std::string contents, ReadData(spec, std::string(path)));
    hash.Add(contents);
  }
  return hash.Hex();
}

int64_t HeldOut(int64_t samples, const DataOptions& options) {
  HEDDLE_CHECK(samples >= 1);
  if (options.validation == 0) return 0;
  const auto wanted = std::llround(options.validation * static_cast<double>(samples));
  return std::min<int64_t>(std::max<int64_t>(wanted, 1), samples - 1);
}

}  // namespace heddle
