# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=x.cpp -DFILES="a.sql,b.sql" -P embed_migrations.cmake
# Writes the SQL files into one source file as raw strings, in the order given.
string(REPLACE "," ";" files "${FILES}")
set(text "// Generated from schema/store; do not edit.\n#include \"store/migrations.hpp\"\n\n")
string(APPEND text "#include <array>\n\nnamespace cubinary::store {\nnamespace {\n")
set(elements "")
foreach(file IN LISTS files)
  file(READ ${file} sql)
  list(LENGTH elements index)
  string(APPEND text "constexpr std::string_view k_sql_${index} = R\"sql(${sql})sql\";\n")
  list(APPEND elements "k_sql_${index}")
endforeach()
list(LENGTH elements count)
list(JOIN elements ", " joined)
string(APPEND text "constexpr std::array<std::string_view, ${count}> k_all{${joined}};\n}  // namespace\n\n")
string(APPEND text "std::span<const std::string_view> migrations() {\n  return k_all;\n}\n\n}  // namespace cubinary::store\n")
file(WRITE ${OUTPUT} "${text}")
