#!/usr/bin/env bash
# usage: tools/clean_room.sh [--carry FILE] FOLDER COMMAND...
#
# Makes FOLDER a bare Debian 12 (debootstrap's minbase, plus git to clone with), clones this
# repository's HEAD into it, and runs COMMAND there. Whatever COMMAND needs, it must install. The
# room gets this machine's own package sources and certificates, for it has no others. FOLDER.base
# is the untouched system and is kept, so that the next room takes seconds. FILE goes into the clone's
# build/.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n 's/^# usage/usage/p' "$0" >&2
  exit 2
fi
# Own mount and process namespaces: when the script ends, so do its mounts and all it started.
if [ "${SK_CLEAN_ROOM:-}" != inside ]; then
  SK_CLEAN_ROOM=inside exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi
carry=""
if [ "$1" = --carry ]; then
  carry=$(realpath -e "$2")
  shift 2
fi
room=$(realpath -m "$1")
shift
source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
release=bookworm

# The first mirror that apt is set up with here.
mirror() {
  awk '/^URIs:/ { print $2; exit } $1 == "deb" { for (i = 2; i <= NF; ++i) if ($i ~ /:\/\//) { print $i; exit } }' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true
}

if [ ! -d "$room.base" ]; then
  echo "clean room: debootstrap (once)"
  mkdir -p "$(dirname "$room")"
  rm -rf --one-file-system "$room.base.partial"
  debootstrap --variant=minbase --include=ca-certificates,git "$release" "$room.base.partial" \
    "$(mirror)" >"$room.log" 2>&1 || { tail -n 20 "$room.log" >&2; exit 1; }
  mv "$room.base.partial" "$room.base"
fi
echo "clean room: a fresh copy"
rm -rf --one-file-system "$room"
cp -a "$room.base" "$room"

rm -f "$room/etc/apt/sources.list"
for folder in /etc/apt /usr/share/keyrings /etc/ssl/certs /usr/local/share/ca-certificates; do
  [ -d "$folder" ] || continue
  mkdir -p "$room$folder"
  cp -a "$folder/." "$room$folder/"
done
# pip's and the certificates' settings may name further files and folders of this machine.
for path in /etc/pip.conf /etc/resolv.conf /etc/hosts "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" \
  "${PIP_FIND_LINKS:-}"; do
  [ -e "$path" ] || continue
  mkdir -p "$room$(dirname "$path")"
  cp -aL "$path" "$room$(dirname "$path")/"
done
mount --rbind /sys "$room/sys"
mount -t proc proc "$room/proc"
mount --rbind /dev "$room/dev"
mount -t tmpfs -o mode=1777 tmpfs "$room/dev/shm"

git clone -q "$source" "$room/root/src"
if [ -n "$carry" ]; then
  mkdir -p "$room/root/src/build"
  cp "$carry" "$room/root/src/build/"
fi
# Recorded machines lie beside the repository where they are at hand; tests skip without them.
if [ -d "$source/../shared" ]; then cp -a "$source/../shared" "$room/root/shared"; fi
echo "clean room: $*"
settings=$(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true)
mapfile -t keep <<<"$settings"
[ -n "$settings" ] || keep=()
chroot "$room" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  "${keep[@]}" bash -c "cd /root/src && $*" </dev/null
