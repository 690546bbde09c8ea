#!/bin/sh
# Builds the guest of `make rig` in the folder $1: `vmlinuz`, and `guest.cpio`, its whole root file system in memory.
#
# Debian 12 on amd64, as root. Everything comes from the machine's Debian archive, the kernel in the version of the headers
# that are installed. Debian's kernels have no gpio-sim: it is compiled here from the sources of the same version.
# What takes long (downloads, the bare Debian) is kept, and made anew where it is deleted.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" != 0 ] || ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || [ "$(uname -m)" != x86_64 ]; then
    echo "the rig's guest is built on Debian 12 for amd64, by root" >&2
    exit 1
fi
mkdir -p "$1"
cd "$1"

release=$(dpkg-query -W -f '${Depends}' linux-headers-amd64 | sed 's/^linux-headers-\([^ ]*\) .*/\1/')
version=$(dpkg-query -W -f '${Version}' linux-headers-amd64)

fetch() {
    [ -n "$(find . -maxdepth 1 -name "$1_${version}_*.deb")" ] && return
    echo "fetching $1 $version"
    apt-get -qq -o APT::Sandbox::User=root download "$1=$version" || {
        echo "the archive has another kernel by now. Run: apt-get update && apt-get install -y linux-headers-amd64" >&2
        exit 1
    }
}

fetch "linux-image-$release"
fetch linux-source-6.1

# --- modules -------------------------------------------------------------------------------------------------

rm -rf kernel modules root
mkdir kernel modules root
dpkg-deb -x linux-image-"$release"_*.deb kernel
cp kernel/boot/vmlinuz-"$release" vmlinuz

echo "compiling gpio-sim and rig_oled for $release"
linux=linux-source-6.1
dpkg-deb --fsys-tarfile "$linux"_*.deb | tar -xO "./usr/src/$linux.tar.xz" | xz -dc |
    tar -x -C modules --transform 's,.*/,,' \
        "$linux/drivers/gpio/gpio-sim.c" "$linux/drivers/gpio/gpiolib.h" "$linux/kernel/irq/irq_sim.c"
# The kernel keeps irq_to_desc to itself; this does the same.
sed -i 's/handle_simple_irq(irq_to_desc(irqnum));/generic_handle_irq(irqnum);/' modules/irq_sim.c
# By itself the chip takes a pull that its user asks for as the level. While `driven` is set a sensor holds each line.
sed -i -e 's/^static int gpio_sim_set_config(/static bool driven;\nmodule_param(driven, bool, 0644);\n\n&/' \
    -e 's/^\tswitch (pinconf_to_config_param(config)) {/\tif (driven)\n\t\treturn 0;\n&/' modules/gpio-sim.c
cp "$here/rig_oled.c" modules
cat >modules/Kbuild <<'KBUILD'
obj-m := gpio-sim-rig.o rig_oled.o
gpio-sim-rig-y := gpio-sim.o irq_sim.o
KBUILD
make -s -C "/lib/modules/$release/build" M="$PWD/modules" CONFIG_DEBUG_INFO_BTF_MODULES= modules

# --- the root file system --------------------------------------------------------------------------------------

if [ ! -e bare.tar ]; then
    echo "making a bare Debian 12"
    mmdebstrap --quiet --variant=minbase --include=python3,udev,kmod \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' bookworm bare.part.tar
    mv bare.part.tar bare.tar
fi
tar -xf bare.tar -C root
rm -rf root/var/cache/apt root/var/lib/apt

# Of the kernel's 4,000 modules those that `init` loads, and what they need.
into=root/lib/modules/$release
mkdir -p "$into"
depmod -b kernel "$release"
for name in $(sed -n 's/^MODULES="\(.*\)"$/\1/p' "$here/init"); do
    modprobe -d kernel -S "$release" --show-depends "$name"
done >needed
sed -n 's/^insmod //p' needed | sort -u | xargs cp -t "$into"
cp kernel/lib/modules/"$release"/modules.builtin* kernel/lib/modules/"$release"/modules.order "$into"
cp modules/*.ko "$into"
depmod -b root "$release"
install -m 755 "$here/init" root/init
(cd root && find . -print0 | cpio --null --quiet --create --format=newc) >guest.part.cpio
mv guest.part.cpio guest.cpio
rm -rf kernel modules root needed
echo "the guest is ready: kernel $release, $(du -m guest.cpio | cut -f1) MB"
