#!/bin/sh
# make-venv.sh FOLDER: a virtual environment there, with $PYTHON or the first Python from 3.11 up that can make one.
# Leaves a usable one as it is.
set -eu

good='import sys; sys.exit(not (3, 11) <= sys.version_info < (4,))'

if [ -x "$1/bin/python" ] && "$1/bin/python" -c "$good; import pip" 2>/dev/null; then
    exit 0
fi
found=""
for python in ${PYTHON:-} python3.13 python3.12 python3.11 python3.14 python3 python; do
    "$python" -c "$good" 2>/dev/null || continue
    found="$python"
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        exec "$python" -m venv --clear "$1"
    fi
done
if [ -n "$found" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Debian keeps this part of Python in a package of its own.
    package="$("$found" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    exec "$found" -m venv --clear "$1"
elif [ -n "$found" ]; then
    echo "$found cannot make a virtual environment. Install its venv part (on Debian and Ubuntu: sudo apt install python3-venv)." >&2
else
    echo "No Python 3.11 or newer was found. Install one, or name it: make venv PYTHON=/path/to/python3" >&2
fi
exit 1
