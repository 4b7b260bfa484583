# SPDX-License-Identifier: ISC
# For tests/bare-machine, tests/platforms and those of tests/service (bash): a root with
# nothing in it, of this machine's Debian release or of RELEASE.  contrib/setup.sh is read
# before.

bare_release() { echo "${RELEASE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}"; }

# Where this machine has its packages from.
# shellcheck disable=SC2016
bare_site() {
	apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1
}

# bare_root DIRECTORY LOG
bare_root() {
	local root=$1 log=$2
	install_packages "$log" debootstrap || return 1
	debootstrap --variant=minbase "$(bare_release)" "$root" "$(bare_site)" >>"$log" 2>&1 ||
		{ tail -n 5 "$log"; echo "debootstrap failed"; return 1; }
	cp /etc/resolv.conf "$root/etc/" 2>/dev/null
	cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null
	return 0
}

# in_root DIRECTORY COMMAND...: with the machine's network; what is mounted for it is gone
# with it, before the root is.
in_root() {
	unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" &&
		mkdir -p "$0/dev/shm" && mount -t tmpfs tmpfs "$0/dev/shm" &&
		exec chroot "$0" "$@"' "$@"
}
