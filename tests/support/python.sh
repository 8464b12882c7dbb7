#!/usr/bin/env bash
# Runs a test written in Python with an interpreter that has the modules named in its line "# needs: ...". Tries the system's
# own interpreter first, since only that one finds packages of the system. If no interpreter has the modules, the test cases
# are listed as skipped. Tests that need pytest are functions test_*, which run_pytest.py runs.
set -u

file=$1
shift
needs=$(sed -n 's/^# needs: *//p' "$file" | head -n 1)
imports="import sys"
for module in $needs; do
    imports="$imports, $module"
done

support=$(dirname "${BASH_SOURCE[0]}")
export PYTHONPATH="$support${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
for python in /usr/bin/python3 python3; do
    if command -v "$python" >/dev/null && "$python" -c "$imports" 2>/dev/null; then
        [[ " $needs " == *" pytest "* ]] && exec "$python" "$support/run_pytest.py" "$file" "$@"
        exec "$python" "$file" "$@"
    fi
done

reason="needs python3${needs:+ with ${needs// /, }} (make setup-all)"
mapfile -t names < <(sed -n '/^@test/{n;s/^def \([A-Za-z0-9_]*\).*/\1/p}; s/^def \(test_[A-Za-z0-9_]*\).*/\1/p' "$file")
[ "${#names[@]}" -gt 0 ] || names=("$(basename "$file" .py)")
for name in "${names[@]}"; do
    echo "skip $name: $reason"
done
echo "0 passed, 0 failed, ${#names[@]} skipped"
