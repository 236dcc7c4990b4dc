#!/usr/bin/env bash
# Replays the Dockerfile where no Docker daemon runs: scripts/docker_replay.sh
#
# Root on Linux with overlayfs is needed. Each instruction runs in a throw-away copy-on-write layer over this machine,
# with a fresh virtual environment in place of the image's Python. Then the layer becomes read-only but for the
# volumes, the network is cut off, and the app must start as the image's user, pass the health check and answer.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "Run this as root: it makes a mount namespace." >&2; exit 2; }
[ -n "${REPLAY:-}" ] || REPLAY=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"

layer=$(mktemp -d)
trap 'umount -l "$layer" && rmdir "$layer"' EXIT
mount -t proc proc /proc
mount -t tmpfs tmpfs "$layer"
mkdir "$layer"/{up,work,root,volumes}
root=$layer/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/up,workdir=$layer/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
chroot "$root" userdel "$(id -un 1000 2>/dev/null || true)" 2>/dev/null || true # the image has no user 1000 yet

user=root directory=/ check='' start='' volumes=() environment=(PATH="$PATH" "${!PIP_@}")
for i in "${!environment[@]}"; do # pip's own settings of this machine, such as an index
  case ${environment[i]} in PIP_*) environment[i]="${environment[i]}=${!environment[i]}" ;; esac
done

inside() { # a shell line, as the Dockerfile's user in its directory with its environment
  chroot --userspec="$user" "$root" env -i "${environment[@]}" sh -c "cd '$directory' && $1"
}

while read -r instruction rest; do
  case $instruction in '' | '#'*) continue ;; esac
  echo "--- $instruction $rest"
  case $instruction in
  FROM)
    python=$("python$(sed 's/python:\([0-9.]*\).*/\1/' <<<"$rest")" -c 'import sys; print(sys.executable)')
    chmod 711 "$root$(cut -d/ -f1-2 <<<"$python")" # this machine's Python may lie in root's home
    chroot "$root" "$python" -m venv /usr/local/image
    environment+=("PATH=/usr/local/image/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    ;;
  RUN) inside "$rest" ;;
  ENV) read -ra pairs <<<"$rest" && environment+=("${pairs[@]}") ;;
  USER) user=$rest ;;
  WORKDIR) directory=$rest && mkdir -p "$root$directory" ;;
  COPY)
    read -r source target <<<"$rest"
    tar -C "$repository" -c --anchored --exclude-from=<(sed 's#^#./#' "$repository/.dockerignore") "./${source#.}" |
      tar -x --no-same-owner -C "$root$directory/$target"
    ;;
  VOLUME)
    volumes+=("$rest")
    cp -a "$root$rest" "$layer/volumes/"
    ;;
  EXPOSE) ;;
  HEALTHCHECK) check=${rest#*CMD } ;;
  CMD) start=$(python3 -c 'import json, shlex, sys; print(shlex.join(json.loads(sys.argv[1])))' "$rest") ;;
  *) echo "This script does not know the instruction $instruction." >&2 && exit 2 ;;
  esac
done < <(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$repository/Dockerfile")

for volume in "${volumes[@]}"; do mount --bind "$layer/volumes/$(basename "$volume")" "$root$volume"; done
mount -o remount,ro "$root"
environment+=("ASK=$(cat <<'PYTHON'
import json
from gradio_client import Client, handle_file

client = Client("http://127.0.0.1:7860/", verbose=False)
picture = handle_file("assets/examples/signs-96.png")
trace = client.predict(image=picture, question="What does it say?", max_new_tokens=16, api_name="/compare")
for line in map(json.loads, trace.splitlines()):
    if line["kind"] == "end":
        print(line["lane"], repr(line["text"]), line["identity"]["verdict"])
PYTHON
)")

serve() { # start the app, wait for the health check, ask one question
  environment=("$@")
  ip link set lo up
  if inside 'touch "$HOME/x" /tmp/x 2>/dev/null'; then echo "The root is not read-only." >&2 && return 1; fi
  inside "exec $start" &
  app=$!
  until inside "$check" 2>/dev/null; do
    kill -0 "$app" || { echo "The app ended." >&2 && return 1; }
    sleep 2
  done
  echo "The health check passes."
  inside 'python -c "$ASK"'
  grep VmHWM "/proc/$(pgrep -P "$app")/status"
}
export -f inside serve
export user directory root start check
echo "--- the app, as $user, read-only but for ${volumes[*]}, without a network"
timeout 1200 unshare --net bash -euo pipefail -c 'serve "$@"' bash "${environment[@]}"
echo "--- written at run time:"
for volume in "${volumes[@]}"; do (cd "$root$volume" && du -a --max-depth=2 | sort -k2); done
