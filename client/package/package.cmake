# SPDX-License-Identifier: Apache-2.0
# The static library, and what `cmake --install BUILD --component client` puts where others find it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One relocatable object that holds our code and its dependencies, with nothing visible but the C
# interface: it lives beside any other OpenSSL or zstd in a program. The C++ runtime stays outside.
if(CUBINARY_STATIC AND NOT CUBINARY_SANITIZE)
  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/libcubinary.map interface REGEX "^ +cubinary_[a-z_]+;")
  list(TRANSFORM interface REPLACE "[ ;]" "")
  list(TRANSFORM interface PREPEND "--undefined=" OUTPUT_VARIABLE wanted)
  list(TRANSFORM interface PREPEND "--keep-global-symbol=" OUTPUT_VARIABLE kept)
  set(archive ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libcubinary.a)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_LINKER} -r --gc-sections ${wanted} -o cubinary.o $<TARGET_OBJECTS:cubinary_api>
            $<TARGET_FILE:cubinary_client_core> $<TARGET_FILE:cubinary_core>
            ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY} ${ZSTD_LIBRARY}
    COMMAND ${CMAKE_OBJCOPY} --strip-debug ${kept} cubinary.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} cubinary.o
    DEPENDS cubinary_api cubinary_client_core cubinary_core libcubinary.map
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking the archive libcubinary.a")
  add_custom_target(cubinary_archive ALL DEPENDS ${archive})
  install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client OPTIONAL)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cubinary)
file(RELATIVE_PATH up /prefix/${package_folder} /prefix)
file(RELATIVE_PATH pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(package/cubinaryConfig.cmake.in package/cubinaryConfig.cmake @ONLY)
configure_file(package/cubinary.pc.in package/cubinary.pc @ONLY)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/package/cubinaryConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(TARGETS cubinary_shared COMPONENT client
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT client
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/cubinaryConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/package/cubinaryConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT client)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/cubinary.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
