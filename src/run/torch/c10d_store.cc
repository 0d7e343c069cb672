#include "run/torch/c10d_store.h"

#include <stdexcept>

#include "base/text.h"

namespace heddle {
namespace {

template <class T>
T Value(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().what);
  return std::move(result).value();
}

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

void C10dStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  Value(client_->Set(key, Text(value)));
}

std::vector<uint8_t> C10dStore::compareSet(const std::string& key,
                                           const std::vector<uint8_t>& expected,
                                           const std::vector<uint8_t>& value) {
  return Bytes(Value(client_->CompareSet(key, Text(expected), Text(value))));
}

std::vector<uint8_t> C10dStore::get(const std::string& key) {
  return Bytes(Value(client_->Get(key, timeout_)));
}

int64_t C10dStore::add(const std::string& key, int64_t value) {
  return Value(client_->Add(key, value));
}

bool C10dStore::deleteKey(const std::string& key) { return Value(client_->Delete(key)); }

bool C10dStore::check(const std::vector<std::string>& keys) { return Value(client_->Check(keys)); }

int64_t C10dStore::getNumKeys() { return Value(client_->Count()); }

void C10dStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void C10dStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  if (Value(client_->Wait(keys, timeout))) return;
  throw std::runtime_error("waited in vain for " + Join(keys, ", "));
}

}  // namespace heddle
