# SPDX-License-Identifier: Apache-2.0
# Compiler flags: strict C11, no contraction of a*b+c (the arithmetic states its own FMAs), warnings are errors.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
option(ISO_WERROR "Warnings are errors" ON)
option(ISO_TESTS "Build the tests (needs cmocka)" ON)
set(ISO_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wundef -Wvla -Wmissing-prototypes -Wstrict-prototypes
    -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden)
# Vectors wider than a register are passed between static inline functions only: gcc's note on their ABI does not apply.
add_compile_options(-Wno-psabi)
if(ISO_WERROR)
    add_compile_options(-Werror)
endif()
if(ISO_SANITIZE)
    add_compile_options(-fsanitize=${ISO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${ISO_SANITIZE})
endif()
