#!/usr/bin/env bash
# Makes sure that Chromium is there: as root it installs the package of Debian, otherwise it says what to install.
set -euo pipefail

find_chromium() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

if find_chromium > /dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
    echo "Chromium is missing: install it, on Debian with 'apt-get install chromium' as root" >&2
    exit 1
fi
echo "installing Debian's Chromium (once)"
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null
find_chromium > /dev/null
