# Turns a file into a C array: cmake -D INPUT=file -D OUTPUT=folder -D NAME=name -P embed.cmake
# writes folder/name.c and folder/name.h with name[] and name_len.

file(READ ${INPUT} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR len "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")

file(WRITE ${OUTPUT}/${NAME}.h
"#include <stddef.h>

extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_len;
")
# The array ends with a NUL that does not count, so that an empty file is an array too.
file(WRITE ${OUTPUT}/${NAME}.c
"#include \"${NAME}.h\"

const unsigned char ${NAME}[] = {
${hex}
0};
const size_t ${NAME}_len = ${len};
")
