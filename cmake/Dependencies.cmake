# SPDX-License-Identifier: Apache-2.0
# One dep_* target a dependency. With CUBINARY_STATIC the archives are preferred, so that release
# binaries run on machines that lack these packages.

list(APPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/build/deps/catch2/usr)

if(CUBINARY_STATIC)
  set(OPENSSL_USE_STATIC_LIBS TRUE)
  # scripts/setup builds one without what nothing here uses: 2 MB less in every binary.
  set(minimal_openssl ${CMAKE_SOURCE_DIR}/build/deps/openssl)
  if(CMAKE_CROSSCOMPILING)
    string(APPEND minimal_openssl -${CMAKE_SYSTEM_PROCESSOR})
  endif()
  if(EXISTS ${minimal_openssl}/recipe)
    # By name: what is found by looking for it depends on the other roots of a cross build.
    set(OPENSSL_INCLUDE_DIR ${minimal_openssl}/include CACHE PATH "" FORCE)
    set(OPENSSL_CRYPTO_LIBRARY ${minimal_openssl}/lib/libcrypto.a CACHE FILEPATH "" FORCE)
    set(OPENSSL_SSL_LIBRARY ${minimal_openssl}/lib/libssl.a CACHE FILEPATH "" FORCE)
  endif()
  set(cubinary_saved_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
add_library(dep_crypto INTERFACE)
target_link_libraries(dep_crypto INTERFACE OpenSSL::Crypto)
add_library(dep_ssl INTERFACE)
target_link_libraries(dep_ssl INTERFACE OpenSSL::SSL OpenSSL::Crypto)

find_library(ZSTD_LIBRARY zstd REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
add_library(dep_zstd INTERFACE)
target_link_libraries(dep_zstd INTERFACE ${ZSTD_LIBRARY})
target_include_directories(dep_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE_DIR})

if(NOT CUBINARY_CLIENT_ONLY)
  # Reads recorded tuning spaces; benchmarks only.
  find_library(ZLIB_LIBRARY z REQUIRED)
  find_path(ZLIB_INCLUDE_DIR zlib.h REQUIRED)
  add_library(dep_zlib INTERFACE)
  target_link_libraries(dep_zlib INTERFACE ${ZLIB_LIBRARY})
  target_include_directories(dep_zlib SYSTEM INTERFACE ${ZLIB_INCLUDE_DIR})

  find_library(SQLITE3_LIBRARY sqlite3 REQUIRED)
  find_path(SQLITE3_INCLUDE_DIR sqlite3.h REQUIRED)
  add_library(dep_sqlite INTERFACE)
  target_link_libraries(dep_sqlite INTERFACE ${SQLITE3_LIBRARY} m Threads::Threads ${CMAKE_DL_LIBS})
endif()

if(CUBINARY_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${cubinary_saved_suffixes})
endif()

find_package(tl-expected REQUIRED)
add_library(dep_expected INTERFACE)
target_link_libraries(dep_expected INTERFACE tl::expected)

find_package(nlohmann_json 3.11 REQUIRED)
add_library(dep_json INTERFACE)
target_link_libraries(dep_json INTERFACE nlohmann_json::nlohmann_json)

find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(dep_toml INTERFACE)
target_include_directories(dep_toml SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
target_compile_definitions(dep_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

find_package(CLI11 2.1 REQUIRED)
add_library(dep_cli11 INTERFACE)
target_link_libraries(dep_cli11 INTERFACE CLI11::CLI11)

# cpp-httplib: distributions' packages are too old to face a port. scripts/setup puts the pinned,
# hash-checked header here.
find_path(HTTPLIB_INCLUDE_DIR httplib.h REQUIRED NO_DEFAULT_PATH
          PATHS ${CMAKE_SOURCE_DIR}/build/deps/include $ENV{CUBINARY_DEPS}/include
          DOC "folder of httplib.h >= 0.41 (scripts/setup fetches it)")
file(STRINGS ${HTTPLIB_INCLUDE_DIR}/httplib.h httplib_version REGEX "define CPPHTTPLIB_VERSION \"")
string(REGEX MATCH "[0-9.]+" httplib_version "${httplib_version}")
if(httplib_version VERSION_LESS 0.41)
  message(FATAL_ERROR "httplib.h is ${httplib_version}; 0.41 or later is needed: run scripts/setup")
endif()
add_library(dep_httplib INTERFACE)
target_include_directories(dep_httplib SYSTEM INTERFACE ${HTTPLIB_INCLUDE_DIR})
target_compile_definitions(dep_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT)
target_link_libraries(dep_httplib INTERFACE dep_ssl Threads::Threads)

if(NOT CUBINARY_CLIENT_ONLY)
  # The Prometheus client library, its core alone; scripts/setup builds it.
  find_library(PROMETHEUS_LIBRARY prometheus-cpp-core REQUIRED
               HINTS ${CMAKE_SOURCE_DIR}/build/deps/prometheus/lib $ENV{CUBINARY_DEPS}/prometheus/lib)
  find_path(PROMETHEUS_INCLUDE_DIR prometheus/text_serializer.h REQUIRED
            HINTS ${CMAKE_SOURCE_DIR}/build/deps/prometheus/include $ENV{CUBINARY_DEPS}/prometheus/include)
  add_library(dep_prometheus INTERFACE)
  target_link_libraries(dep_prometheus INTERFACE ${PROMETHEUS_LIBRARY} Threads::Threads)
  target_include_directories(dep_prometheus SYSTEM INTERFACE ${PROMETHEUS_INCLUDE_DIR})
endif()
