# cmake -DOUTPUT=sql.c "-DFILES=a.sql;b.sql" -P embed_sql.cmake
# Bytes, not string literals: those may hold 4,095 characters only, and need quoting.
set(text "/* Generated from sql/query. */\n#include \"store/sql.h\"\n")
foreach(file ${FILES})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND text "\nconst char sql_${name}[] = {${bytes}0};\n")
endforeach()
string(APPEND text "\nextern const int sql_is_embedded;\nconst int sql_is_embedded = 1; /* never an empty file */\n")
file(WRITE ${OUTPUT} "${text}")
