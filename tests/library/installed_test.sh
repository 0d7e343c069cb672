#!/usr/bin/env bash
# Installs the library into a folder of its own, builds the example against that alone, by CMake and by pkg-config,
# and runs it: what heddle says of the plan it wrote is what heddle says of its own.
#
# usage: installed_test.sh <build folder> <heddle> <c++ compiler>
set -euo pipefail

build=$(realpath "$1") heddle=$(realpath "$2") compiler=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$build/tests/library
installed=$place/installed
rm -rf "$place"
mkdir -p "$place"
cmake --install "$build" --prefix "$installed" --component library > "$place/install.log"

# Nobody can include what is not installed.
[[ ! -e $installed/include/base && -f $installed/include/heddle/heddle.h ]]

cmake -S "$source/examples/library" -B "$place/cmake" -DCMAKE_PREFIX_PATH="$installed" \
  -DCMAKE_CXX_COMPILER="$compiler" > "$place/configure.log"
cmake --build "$place/cmake" > "$place/build.log" || { cat "$place/build.log"; exit 1; }

pkgconfig=$(dirname "$(find "$installed" -name heddle.pc)")
export PKG_CONFIG_PATH=$pkgconfig
# shellcheck disable=SC2046  # several words
"$compiler" -std=c++20 "$source/examples/library/plan_cluster.cc" -o "$place/by_pkg_config" \
  $(pkg-config --cflags --libs heddle)

cluster=$source/examples/clusters/mixed4.toml
for program in "$place/cmake/plan_cluster" "$place/by_pkg_config"; do
  "$program" 'gpt?layers=4' "$cluster" "$place/plan.json" > "$place/out.txt"
  grep -q 'is busiest' "$place/out.txt"
  "$heddle" check "$place/plan.json"
  code=0
  "$program" 'gtp' "$cluster" "$place/none.json" 2> "$place/err.txt" || code=$?
  [[ $code == 4 && ! -e $place/none.json ]]
  grep -q 'gpt' "$place/err.txt"
done
# The same plan as that of the executable.
"$heddle" plan --model 'gpt?layers=4' --cluster "$cluster" --batch 32 --strategy 1f1b --microbatches 8 \
  -o "$place/own.json" > /dev/null
python3 - "$place/plan.json" "$place/own.json" <<'PYTHON'
import json, sys
ours, own = (json.load(open(name)) for name in sys.argv[1:])
for key in set(ours) - {"planning_seconds"}:
    assert ours[key] == own[key], (key, ours[key], own[key])
PYTHON
