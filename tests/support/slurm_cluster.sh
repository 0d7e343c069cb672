#!/usr/bin/env bash
# A Slurm cluster of four nodes, all on this machine.
#   slurm_cluster.sh start FOLDER PORT   uses PORT to PORT + 4; exit 77 where it is not permitted
#   slurm_cluster.sh stop FOLDER
set -euo pipefail

readonly verb=$1 folder=${2%/}
export SLURM_CONF=$folder/slurm.conf

write_configuration() {
  local port=$1
  cat > "$SLURM_CONF" <<CONF
ClusterName=heddle
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=n[0-3] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
}

# However long it takes, as long as the daemons run.
wait_until_idle() {
  local daemon
  until [[ $(sinfo --noheader --format=%t --states=idle --Node 2> /dev/null | wc -l) == 4 ]]; do
    for daemon in "$folder"/slurm*.pid; do
      if [[ -s $daemon ]] && ! kill -0 "$(cat "$daemon")" 2> /dev/null; then
        tail -n 20 "$folder"/*.log >&2
        return 1
      fi
    done
    sleep 0.2
  done
}

case $verb in
  start)
    [[ $(id -u) == 0 ]] || exit 77
    mkdir -p "$folder/state" "$folder/spool"
    chmod 755 "$folder"
    write_configuration "$3"
    head -c 128 /dev/urandom > "$folder/munge.key"
    chmod 600 "$folder/munge.key"
    munged --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
      --log-file="$folder/munged.log" --pid-file="$folder/munged.pid" --seed-file="$folder/munged.seed" \
      > /dev/null 2>&1
    slurmctld -f "$SLURM_CONF"
    for node in n0 n1 n2 n3; do slurmd -f "$SLURM_CONF" -N "$node"; done
    wait_until_idle
    ;;
  stop)
    for pid_file in "$folder"/slurm*.pid "$folder"/munged.pid; do
      if [[ -s $pid_file ]]; then kill -9 "$(cat "$pid_file")" || true; fi
    done
    ;;
esac
