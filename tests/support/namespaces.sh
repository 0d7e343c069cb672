#!/usr/bin/env bash
# Hosts that are network namespaces of this machine, 10.77.0.1 and on, on one bridge, their links shaped both ways.
#   namespaces.sh make TAG [HOSTS]         hosts (4) are called ${TAG}n0, ${TAG}n1, …, at 400 Mbit/s; exit 77 where it
#                                          is not permitted
#   namespaces.sh shape TAG HOST BITS      that host's link to so many bits a second
#   namespaces.sh remove TAG [HOSTS]
set -uo pipefail

readonly verb=$1 tag=$2

shape() {  # shape HOST BITS
  # What passes at once is a millisecond's worth: little beside a message.
  local burst=$(( $2 / 8000 < 4000 ? 4000 : $2 / 8000 ))
  local filter="tbf rate ${2}bit burst $burst latency 50ms"
  # shellcheck disable=SC2086
  tc qdisc replace dev "${tag}v$1" root $filter &&
    ip netns exec "${tag}n$1" tc qdisc replace dev eth0 root $filter
}

case $verb in
  make)
    ip netns add "${tag}n0" || exit 77
    ip netns del "${tag}n0"
    ip link add "${tag}br" type bridge || exit 77
    ip link set "${tag}br" up
    for (( k = 0; k < ${3:-4}; ++k )); do
      ip netns add "${tag}n$k"
      ip link add "${tag}v$k" type veth peer name eth0 netns "${tag}n$k"
      ip link set "${tag}v$k" master "${tag}br"
      ip link set "${tag}v$k" up
      ip -n "${tag}n$k" link set lo up
      ip -n "${tag}n$k" addr add "10.77.0.$((k + 1))/24" dev eth0
      ip -n "${tag}n$k" link set eth0 up
      shape "$k" 400000000 || exit 77
    done
    ;;
  shape)
    shape "$3" "$4"
    ;;
  remove)
    for (( k = 0; k < ${3:-4}; ++k )); do ip netns del "${tag}n$k"; done
    ip link del "${tag}br"
    ;;
esac
