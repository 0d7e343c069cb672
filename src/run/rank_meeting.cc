#include "run/rank_meeting.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

namespace heddle {
namespace {

// Without a secret only the user's own processes are let in, which need one folder, and so one
// host.
Result<MeetingPlace> PlaceFor(const LaunchedRank& launched, bool one_host, bool secret) {
  if (secret) return MeetingPlace{"", launched.address, launched.port};
  if (one_host) return PlaceOnThisHost(launched.port);
  return BadInput("HEDDLE_SECRET",
                  fmt::format("is not set, and nothing says that all {} processes are on this host",
                              launched.ranks),
                  "set it to the same for all, by export HEDDLE_SECRET=$(head -c 32 /dev/urandom | "
                  "base64), mpirun -x HEDDLE_SECRET; or give --secret-file");
}

std::string AddressOf(const Listener& listener) {
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  char text[NI_MAXHOST] = "";
  getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&mine), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, text, sizeof text, nullptr, 0,
              NI_NUMERICHOST);
  return text;
}

bool IsAny(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

Result<Listener> ListenFor(MeetingPlace place, bool one_host, const std::string& interface) {
  if (!place.here() && !interface.empty()) place.address = interface;
  HEDDLE_ASSIGN(Listener listener, Listen(place));
  if (place.here() || one_host || !IsLoopback(AddressOf(listener))) return listener;
  return BadInput(
      place.ToString(),
      fmt::format("is {} to this host, where no other can reach it", AddressOf(listener)),
      "give the first process --interface, an address of this host or eth0");
}

}  // namespace

Result<RankMeeting> RankMeeting::Open(const LaunchedRank& launched, const MeetingOptions& options) {
  const bool one_host = launched.ranks == 1 || launched.all_here || IsLoopback(launched.address);
  HEDDLE_ASSIGN(const std::optional<Secret> secret,
                FindSecret(options.environment("HEDDLE_SECRET"), options.secret_file));
  RankMeeting meeting(secret.value_or(Secret::Of("")));
  meeting.meet_within_ = options.meet_within;
  HEDDLE_ASSIGN(meeting.place_, PlaceFor(launched, one_host, secret.has_value()));
  HEDDLE_ASSIGN(const std::string interface, AddressOfInterface(options.interface));
  if (launched.rank == 0) {
    HEDDLE_ASSIGN(Listener listener, ListenFor(meeting.place_, one_host, interface));
    StoreServerOptions server{meeting.secret_};
    server.members = launched.ranks;
    server.note = options.note;
    HEDDLE_ASSIGN(meeting.server_, StoreServer::Start(std::move(listener), std::move(server)));
  }
  if (!interface.empty() && !IsAny(interface)) {
    meeting.interface_address_ = interface;
  } else if (one_host) {
    meeting.interface_address_ = "127.0.0.1";
  } else {
    HEDDLE_ASSIGN(meeting.interface_address_, AddressTowards(launched.address, launched.port));
  }
  return meeting;
}

Result<std::unique_ptr<StoreClient>> RankMeeting::Connect(const std::atomic<bool>* enough) const {
  Result<std::unique_ptr<StoreClient>> store =
      StoreClient::Connect(place_, secret_, meet_within_, enough);
  if (store.ok() || store.error().kind != ErrorKind::kRunFailed) return store;
  Error error = store.error();
  error.where = place_.ToString();
  error.what = "cannot reach the others: " + error.what;
  return error;
}

}  // namespace heddle
