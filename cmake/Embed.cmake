# SPDX-License-Identifier: Apache-2.0
# embed_files(VARIABLE header function file…): sets VARIABLE to a generated source file that defines
# `std::span<const core::EmbeddedFile> function()`, declared in `header`, over the text files in the order given.
# `function` is qualified: cubinary::store::migrations.
function(embed_files variable header function)
  string(MAKE_C_IDENTIFIER ${function} name)
  set(output ${CMAKE_BINARY_DIR}/generated/embedded/${name}.cpp)
  list(JOIN ARGN "," files)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DFUNCTION=${function} "-DFILES=${files}"
            -P ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    COMMENT "Embedding the files of ${function}" VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
