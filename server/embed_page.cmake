# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=x.cpp -DFILES="a.html,b.js" -P embed_page.cmake
# Writes the page's files into one source file as raw strings, by their names.
string(REPLACE "," ";" files "${FILES}")
set(text "// Generated from server/page and Chart.js; do not edit.\n#include \"server/page.hpp\"\n\n#include <array>\n\nnamespace cubinary::server {\nnamespace {\n")
set(elements "")
foreach(file IN LISTS files)
  file(READ ${file} content)
  get_filename_component(name ${file} NAME)
  # The distribution's file name differs from the one the page asks for.
  string(REPLACE "chart.min.js" "chart.js" name ${name})
  list(LENGTH elements index)
  string(APPEND text "constexpr std::string_view k_file_${index} = R\"___(${content})___\";\n")
  list(APPEND elements "PageFile{\"${name}\", k_file_${index}}")
endforeach()
list(LENGTH elements count)
list(JOIN elements ", " joined)
string(APPEND text "constexpr std::array<PageFile, ${count}> k_all{${joined}};\n}  // namespace\n\n")
string(APPEND text "std::span<const PageFile> page_files() {\n  return k_all;\n}\n\n}  // namespace cubinary::server\n")
file(WRITE ${OUTPUT} "${text}")
