// MeetingPlace: where the processes of a run find each other's store. A socket in a folder that
// only this user can enter, on one host; a port of one address, across hosts.
//
//   HEDDLE_ASSIGN(const MeetingPlace place, PlaceOnThisHost(29400));
//   HEDDLE_ASSIGN(Listener listener, Listen(place));             // the first process
//   HEDDLE_ASSIGN(Descriptor socket, Reach(place, 1s));          // the others
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "run/meet/descriptor.h"

namespace heddle {

struct MeetingPlace {
  std::string socket;   // its path; or, if empty:
  std::string address;  // a name or numbers
  uint16_t port = 0;    // 0: any that is free, for who listens

  bool here() const { return !socket.empty(); }
  std::string ToString() const;
};

// The socket of this user and number: /tmp/heddle-<user>/<number>. The folder is made if it is
// missing, and must belong to this user alone.
Result<MeetingPlace> PlaceOnThisHost(uint16_t number);

// Closes, and removes the socket's file and its lock, when this ends.
struct Listener {
  MeetingPlace place;  // with the port it got
  Descriptor socket;
  Descriptor lock;  // of a socket's name: who has it is alive

  Listener() = default;
  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = default;
  ~Listener();
};
Result<Listener> Listen(const MeetingPlace& place);

// A socket that does not block.
Result<Descriptor> Reach(const MeetingPlace& place, std::chrono::milliseconds limit);

// Is this text the name or number of a host itself, whichever host reads it?
bool IsLoopback(const std::string& address);

// The address of a network interface of this host by its name ("eth0"); an address stays as it is.
Result<std::string> AddressOfInterface(const std::string& name);

}  // namespace heddle
