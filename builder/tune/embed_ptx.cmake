# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: device code as string constants. -DFOLDER= holds device.ptx and tensor.ptx.
set(text "#include \"builder/tune/worker/device_code.hpp\"\nnamespace cubinary::builder {\n")
foreach(name device tensor)
  file(READ "${FOLDER}/${name}.ptx" ptx)
  string(APPEND text "const char* const k_${name}_ptx = R\"ptx(${ptx})ptx\";\n")
endforeach()
string(APPEND text "}\n")
file(WRITE "${OUTPUT}" "${text}")
