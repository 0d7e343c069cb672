// C10dStore: our store (run/meet) as c10d wants one. What cannot be done is thrown, as c10d's own
// do.
//
//   c10::make_intrusive<C10dStore>(client, timeout)
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "run/meet/store_client.h"

namespace heddle {

class C10dStore final : public c10d::Store {
 public:
  C10dStore(std::shared_ptr<StoreClient> client, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), client_(std::move(client)) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<StoreClient> client_;
};

}  // namespace heddle
