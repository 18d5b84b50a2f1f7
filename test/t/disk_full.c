/*
 * disk_full.c
 *		To be preloaded into a server: a disk that gets full.
 *
 * The file that DISK_FULL names holds a struct Disk, which a test changes
 * while the server runs.  What is written to a file of relations (base/) or of
 * WAL (pg_wal/) needs room when the file grows, as on any file system; with
 * "copies", also when it does not, as where blocks are never overwritten.
 * Without enough room the write fails with ENOSPC, and nothing is written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NO_LIMIT INT64_MAX

struct Disk
{
	_Atomic int64_t relations;	/* bytes there is room for */
	_Atomic int64_t wal;
	_Atomic int64_t copies;
};

static struct Disk *disk;

/*
 * Maps the file, in every process of the server for itself.
 */
__attribute__((constructor)) static void
disk_open(void)
{
	const char *path = getenv("DISK_FULL");
	int			fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void	   *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(struct Disk), PROT_READ | PROT_WRITE, MAP_SHARED,
			   fd, 0);
	if (map != MAP_FAILED)
		disk = map;
	close(fd);
}

/*
 * The room for files of the kind that this one is; NULL where it is not
 * limited.
 */
static _Atomic int64_t *
disk_room(int fd)
{
	char		link[64];
	char		path[4096];
	_Atomic int64_t *room = NULL;
	ssize_t		len;

	if (disk == NULL ||
		(disk->relations == NO_LIMIT && disk->wal == NO_LIMIT))
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return NULL;
	path[len] = '\0';
	if (strstr(path, "/base/") != NULL)
		room = &disk->relations;
	else if (strstr(path, "/pg_wal/") != NULL)
		room = &disk->wal;
	return room != NULL && *room != NO_LIMIT ? room : NULL;
}

/*
 * Takes the room that a write needs: 0, or ENOSPC when there is not enough.
 */
static int
disk_take(int fd, off_t offset, size_t size)
{
	int			saved = errno;
	_Atomic int64_t *room = disk_room(fd);
	int64_t		needed = 0;
	struct stat st;

	if (room != NULL && fstat(fd, &st) == 0)
	{
		if (disk->copies)
			needed = size;
		else if (offset + (off_t) size > st.st_size)
			needed = offset + (off_t) size - st.st_size;
	}
	errno = saved;
	if (needed == 0)
		return 0;
	if ((*room -= needed) >= 0)
		return 0;
	*room = 0;
	return ENOSPC;
}

static size_t
vector_size(const struct iovec *iov, int count)
{
	size_t		size = 0;

	for (int i = 0; i < count; i++)
		size += iov[i].iov_len;
	return size;
}

/*
 * What the server calls, under the names for either size of off_t.
 */
#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

#define WRITE_AT(name, buffer_type, count_type, size) \
ssize_t \
name(int fd, buffer_type buffer, count_type count, off_t offset) \
{ \
	static __typeof__(&name) real; \
	if (real == NULL) \
		real = REAL(name); \
	errno = disk_take(fd, offset, size); \
	return errno != 0 ? -1 : real(fd, buffer, count, offset); \
}

WRITE_AT(pwrite, const void *, size_t, count)
WRITE_AT(pwrite64, const void *, size_t, count)
WRITE_AT(pwritev, const struct iovec *, int, vector_size(buffer, count))
WRITE_AT(pwritev64, const struct iovec *, int, vector_size(buffer, count))

ssize_t
write(int fd, const void *buffer, size_t size)
{
	static __typeof__(&write) real;

	if (real == NULL)
		real = REAL(write);
	if (disk_room(fd) != NULL)
	{
		errno = disk_take(fd, lseek(fd, 0, SEEK_CUR), size);
		if (errno != 0)
			return -1;
	}
	return real(fd, buffer, size);
}

int
posix_fallocate(int fd, off_t offset, off_t size)
{
	static __typeof__(&posix_fallocate) real;

	if (real == NULL)
		real = REAL(posix_fallocate);
	if (disk_take(fd, offset, size) != 0)
		return ENOSPC;
	return real(fd, offset, size);
}

int
posix_fallocate64(int fd, off_t offset, off_t size)
{
	return posix_fallocate(fd, offset, size);
}
