/* Runs a fuzzer's entry point over stored inputs, for builds without libFuzzer: each argument is a
 * file or a folder of files. One thread. Fails when there was nothing to run.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The file's bytes in memory of exactly their size, so that a sanitizer sees a read beyond them. */
static int replay_file(const char *path, long size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int rc = -1;

    if (file && data && fread(data, 1, (size_t)size, file) == (size_t)size) {
        LLVMFuzzerTestOneInput(data, (size_t)size);
        rc = 0;
    } else {
        perror(path);
    }
    free(data);
    if (file)
        fclose(file);
    return rc;
}

/* How many inputs ran; -1 when one could not be read. */
static long replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (long)st.st_size) == 0 ? 1 : -1;

    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return -1;
    }
    long count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        long n = replay(name);
        count = n < 0 ? -1 : count + n;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    long count = 0;
    for (int i = 1; i < argc; i++) {
        long n = replay(argv[i]);
        if (n < 0)
            return 1;
        count += n;
    }
    printf("%ld inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
