# SPDX-License-Identifier: Apache-2.0
# Interface targets every target of ours links: language, warnings, sanitizers, include root.

add_library(cubinary_settings INTERFACE)
target_compile_features(cubinary_settings INTERFACE cxx_std_20 c_std_11)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(cubinary_settings INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(cubinary_settings INTERFACE CUBINARY_VERSION="${PROJECT_VERSION}")

if(CUBINARY_SANITIZE)
  target_compile_options(cubinary_settings INTERFACE
    -fsanitize=${CUBINARY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(cubinary_settings INTERFACE -fsanitize=${CUBINARY_SANITIZE})
endif()
if(CUBINARY_COVERAGE)
  target_compile_options(cubinary_settings INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(cubinary_settings INTERFACE --coverage)
endif()

add_library(cubinary_warnings INTERFACE)
target_compile_options(cubinary_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  # Optimising, GCC 12 sees an impossible overlap in "text" + std::string (its bug 105651), and reads of
  # members that a std::variant does not hold (its bug 105562).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<NOT:$<CONFIG:Debug>>>:-Wno-restrict;-Wno-maybe-uninitialized>
  $<$<BOOL:${CUBINARY_WERROR}>:-Werror>)

# What one checkout compiled another takes: paths below it are made relative.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER /usr/bin/env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Static dependencies bring much that nothing calls: sections, so that the linker can drop them.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
if(CUBINARY_STATIC AND NOT CUBINARY_SANITIZE)
  target_compile_options(cubinary_settings INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(cubinary_settings INTERFACE -Wl,--gc-sections -s)
endif()

# Links the C++ runtime into a program or shared library, so that it needs libc only.
function(cubinary_link_runtime_statically target)
  if(CUBINARY_STATIC)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# Release programs and libraries run on glibc 2.28 wherever they were linked (client/glibc_floor.c says how).
# What is older lives in these three there; as stubs they exist everywhere.
function(cubinary_lower_glibc_floor target)
  if(NOT CUBINARY_STATIC OR CUBINARY_SANITIZE OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|aarch64")
    return()
  endif()
  set(source ${CMAKE_SOURCE_DIR}/client/glibc_floor.c)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS "-fno-lto;-fno-builtin")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:CUBINARY_GLIBC_FLOOR_PROGRAM>)
  endif()
  target_link_options(${target} PRIVATE
    LINKER:--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -l:libm.so.6 LINKER:--pop-state)
endfunction()
