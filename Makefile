# SPDX-License-Identifier: Apache-2.0
# Isochron: a thin layer over CMake and Ninja. `make list` names the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := build
.SUFFIXES:
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
SECONDS ?= 60
CTEST = ctest --output-on-failure --no-tests=error -j$(JOBS)
CONFIGURE = cmake -G Ninja -S . -Wno-dev
# CMake's words only when it fails
QUIETLY = > .configure.log 2>&1 || { cat .configure.log >&2; exit 1; }; rm -f .configure.log

.PHONY: build list deps demo test unit clang asan ubsan tsan aarch64 fuzz tidy swarm bench install clean

build: ## build/isochron (gcc, optimised)
	@tools/need.sh build
	@$(CONFIGURE) -B build -DISO_TESTS=OFF $(QUIETLY)
	@ninja -C build -j$(JOBS)

list: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

deps: ## install what building needs
	@tools/install.sh build

demo: ## install, build, train LeNet-5 on Fashion-MNIST, show the result
	@tools/install.sh build demo
	@$(MAKE) --no-print-directory build
	@build/isochron train examples/lenet5-fashion.yaml --out runs/demo --force
	@build/isochron evaluate runs/demo --data /usr/share/datasets/fashion-mnist

test: ## install what is needed and run all tests
	@tools/install.sh build test
	@tools/test.sh

unit: ## build and run the tests of one compiler, gcc
	@tools/need.sh build test
	@$(CONFIGURE) -B build -DISO_TESTS=ON $(QUIETLY)
	@ninja -C build -j$(JOBS) all && cd build && $(CTEST)

clang: ## the same with clang
	@tools/need.sh build test clang
	@CC=clang $(CONFIGURE) -B build-clang -DISO_TESTS=ON $(QUIETLY)
	@ninja -C build-clang -j$(JOBS) all && cd build-clang && $(CTEST)

asan: ## tests under the address and undefined behaviour sanitizers
	@tools/need.sh build test sanitizers
	@CC=clang $(CONFIGURE) -B build-asan -DISO_TESTS=ON -DISO_SANITIZE=address,undefined $(QUIETLY)
	@ninja -C build-asan -j$(JOBS) all && cd build-asan && $(CTEST)

ubsan: asan ## the same: both run at once

tsan: ## tests of threads under the thread sanitizer
	@tools/need.sh build test sanitizers
	@CC=clang $(CONFIGURE) -B build-tsan -DISO_TESTS=ON -DISO_SANITIZE=thread $(QUIETLY)
	@ninja -C build-tsan -j$(JOBS) all && cd build-tsan && $(CTEST) -R '^(engine|core)/'

aarch64: ## the core for aarch64, its bits under qemu
	@tools/need.sh aarch64
	@$(CONFIGURE) -B build-aarch64 -DISO_CORE_ONLY=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake $(QUIETLY)
	@ninja -C build-aarch64 -j$(JOBS) && cd build-aarch64 && $(CTEST)

fuzz: ## fuzz every target for SECONDS=60 seconds (clang)
	@tools/need.sh build test sanitizers
	@CC=clang $(CONFIGURE) -B build-fuzz -DISO_TESTS=ON -DISO_FUZZ=ON $(QUIETLY)
	@ninja -C build-fuzz -j$(JOBS) fuzzers && tools/fuzz.sh build-fuzz $(SECONDS)

tidy: ## style, layers, symbols
	@tools/need.sh build test
	@$(CONFIGURE) -B build -DISO_TESTS=ON $(QUIETLY)
	@ninja -C build -j$(JOBS) all && cd build && $(CTEST) -R '^tidy'

swarm: build ## 10,000 fault seeds over all policies
	@ISO_SEEDS=1..10000 ISOCHRON=build/isochron python3 tests/program/test_simulate.py -v Faults.test_fault_seeds

bench: ## measure (needs PyTorch: downloads it into build-bench)
	@tools/install.sh build bench demo
	@bench/run.py all

install: build ## copy program, libraries, headers to $(DESTDIR)$(PREFIX)
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean: ## remove what was built
	@rm -rf build build-*
