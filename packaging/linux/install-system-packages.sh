#!/bin/sh
# Installs the system libraries that Qt's window needs (PySide6's wheel brings Qt, not these) and the one that tells for
# how long nobody touched an X display. With `tests` also what the tests run real servers with: an X server without a
# screen and a window manager for it, a message bus and services for it, a Wayland compositor, a lab's routers and relay, and a browser.
# Installs only what is missing, and only as root on a system with apt; otherwise says what to install. Quick when nothing
# is missing. Never fails for want of a library: what needs it then says so itself.
set -eu

[ "$(uname -s)" = Linux ] || exit 0

# library                package on Debian and Ubuntu
libraries="
libEGL.so.1              libegl1
libGL.so.1               libgl1
libX11.so.6              libx11-6
libX11-xcb.so.1          libx11-xcb1
libXss.so.1              libxss1
libdbus-1.so.3           libdbus-1-3
libfontconfig.so.1       libfontconfig1
libglib-2.0.so.0         libglib2.0-0
libxkbcommon.so.0        libxkbcommon0
libxkbcommon-x11.so.0    libxkbcommon-x11-0
libxcb-cursor.so.0       libxcb-cursor0
libxcb-icccm.so.4        libxcb-icccm4
libxcb-image.so.0        libxcb-image0
libxcb-keysyms.so.1      libxcb-keysyms1
libxcb-randr.so.0        libxcb-randr0
libxcb-render-util.so.0  libxcb-render-util0
libxcb-shape.so.0        libxcb-shape0
libxcb-sync.so.1         libxcb-sync1
libxcb-util.so.1         libxcb-util1
libxcb-xfixes.so.0       libxcb-xfixes0
"
known=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null) || exit 0  # no such list (musl): cannot tell
missing=""
packages=""
while read -r library package; do
    [ -n "$library" ] || continue
    case "$known" in
        *"$library "*) ;;
        *) missing="$missing $library"; packages="$packages $package" ;;
    esac
done <<END
$libraries
END
if ! { command -v fc-list >/dev/null && [ -n "$(fc-list 2>/dev/null | head -n 1)" ]; } && [ ! -d /usr/share/fonts/truetype ]; then
    missing="$missing fonts"
    packages="$packages fonts-dejavu-core"
fi
# program                package on Debian and Ubuntu
programs="
Xvfb                     xvfb
xauth                    xauth
xdotool                  xdotool
xprop                    x11-utils
openbox                  openbox
dbus-daemon              dbus
gdbus                    libglib2.0-bin
sway                     sway
ip                       iproute2
tc                       iproute2
nft                      nftables
turnserver               coturn
ping                     iputils-ping
wtype                    wtype
"
if [ "${1:-}" = tests ]; then
    while read -r program package; do
        [ -n "$program" ] && ! command -v "$program" >/dev/null || continue
        missing="$missing $program"
        packages="$packages $package"
    done <<END
$programs
END
    # For the system's own Python: with pip it would have to be compiled.
    if ! /usr/bin/python3 -c 'import dbusmock' 2>/dev/null; then
        missing="$missing python-dbusmock"
        packages="$packages python3-dbusmock"
    fi
    # Any Chromium or Chrome will do. Only Debian has it as a package; Ubuntu's is a snap, which a container cannot hold.
    if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null \
        && ! command -v google-chrome >/dev/null && grep -qs '^ID=debian' /etc/os-release; then
        missing="$missing chromium"
        packages="$packages chromium"
    fi
fi
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing system packages:$packages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
elif command -v apt-get >/dev/null; then
    echo "The window needs system libraries that are not here. Install them with: sudo apt install$packages"
else
    echo "The window needs system libraries that are not here. Install what provides:$missing"
fi
