#!/usr/bin/env bash
# Four hosts that are network namespaces of this machine, 10.77.0.1 to 10.77.0.4, on one bridge, their links
# shaped to 400 Mbit/s both ways.
#   namespaces.sh make TAG     hosts are called ${TAG}n0 to ${TAG}n3; exit 77 where it is not permitted
#   namespaces.sh remove TAG
set -uo pipefail

readonly verb=$1 tag=$2

case $verb in
  make)
    ip netns add "${tag}n0" || exit 77
    ip netns del "${tag}n0"
    ip link add "${tag}br" type bridge || exit 77
    ip link set "${tag}br" up
    for k in 0 1 2 3; do
      ip netns add "${tag}n$k"
      ip link add "${tag}v$k" type veth peer name eth0 netns "${tag}n$k"
      ip link set "${tag}v$k" master "${tag}br"
      ip link set "${tag}v$k" up
      ip -n "${tag}n$k" link set lo up
      ip -n "${tag}n$k" addr add "10.77.0.$((k + 1))/24" dev eth0
      ip -n "${tag}n$k" link set eth0 up
      tc qdisc add dev "${tag}v$k" root tbf rate 400mbit burst 128kb latency 50ms || exit 77
      ip netns exec "${tag}n$k" tc qdisc add dev eth0 root tbf rate 400mbit burst 128kb latency 50ms
    done
    ;;
  remove)
    for k in 0 1 2 3; do ip netns del "${tag}n$k"; done
    ip link del "${tag}br"
    ;;
esac
