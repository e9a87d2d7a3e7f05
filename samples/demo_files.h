/* Files of the demo: what lies in the directory of --files, under /files/. */
#ifndef DEMO_FILES_H
#define DEMO_FILES_H

#include "demo.h"

#include <fcntl.h>

static bool is_below_files(struct ioh_str path)
{
    return path.len >= 6 && memcmp(path.ptr, "/files", 6) == 0 &&
           (path.len == 6 || path.ptr[6] == '/');
}

static void get_file(struct demo *demo, ioh_req *req)
{
    struct ioh_file_options options = IOH_FILE_OPTIONS_INIT;
    char path[4096];
    options.precompressed = IOH_FILE_BR | IOH_FILE_ZSTD | IOH_FILE_GZIP;
    options.cache_control = "no-cache";
    options.headers = &text_fields[1]; /* nosniff */
    options.header_count = 1;
    if (demo->files < 0 || ioh_req_path_decode(req, "/files", path, sizeof path) < 0)
        answer(demo, req, demo->missing);
    else
        check(demo, "file", ioh_send_file(req, demo->files, path, &options));
}

/* false: it cannot be opened. */
static bool open_files(struct demo *demo, const char *folder)
{
    demo->files = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder && demo->files < 0)
        fprintf(stderr, "demo: --files: %s: %s\n", folder, strerror(errno));
    return !folder || demo->files >= 0;
}

#endif
