/* The texts of the error list. Constant data, any thread. */
#include <iohandler/error.h>

const char *ioh_strerror(int error)
{
    if (error >= 0)
        return "ok";
    switch (error) {
#define TEXT(name, value, text) \
    case name:                  \
        return text;
        IOH_ERRORS(TEXT)
#undef TEXT
    default:
        return "unknown error";
    }
}
