# Makefile
#	Builds and installs the extension with PGXS, and starts the tests.
#
#	make, make install, make installcheck	as for every extension
#	make test				everything, in throw-away clusters
#	make test-unit, test-regress, test-isolation, test-tap	one kind of it;
#		REGRESS=, ISOLATION= or PROVE_TESTS= picks from it
#	make test-hostile			calls with values that nobody should pass
#	make test-majors			all of it, with other major versions
#	make test-analysers			gcc -fanalyzer, clang --analyze, cppcheck
#	make test-asan			the server under the address sanitizer
#	make coverage			which lines the tests reach
#	make test-jit			tests --with-llvm, all expressions compiled
#	make test-faults			kill -9, time limits, no memory, full disk
#	make fuzz SECONDS=60			fuzzes the pure part, so long a target
#	make demo, make demo-proxy, make bench, make format
#
# The test targets must start on a machine that has no PostgreSQL yet, so this
# file must be readable there: PGXS is included when it can be had.  They go
# through test/harness.sh, which installs what is missing.
#
# The current directory may be another than this file's (VPATH=, as pg_buildext
# does): what is read is below $(srcdir), what is written is not.  PGXS sets
# srcdir, so what names it is expanded late: "=", not ":=".

MODULE_big = shardring
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard \
	$(srcdir)/extension/src/*.c $(srcdir)/extension/src/ring/*.c)))
EXTENSION = extension/shardring
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" \
	$(srcdir)/extension/shardring.control)
# The install script is its parts, in the order of their names.
SQL_PARTS = $(sort $(wildcard $(srcdir)/extension/sql/*.sql))
DATA_built = extension/shardring--$(EXTVERSION).sql
DATA = $(filter-out $(DATA_built),$(patsubst $(srcdir)/%,%, \
	$(wildcard $(srcdir)/extension/shardring--*.sql)))
PGFILEDESC = "shardring - consistent-hash ring for sharding"
PG_CPPFLAGS = -I$(libpq_srcdir)
SHLIB_LINK = $(libpq) -lcrypto -lpthread \
	-Wl,--version-script=$(srcdir)/extension/src/exports.map

REGRESS = $(basename $(notdir $(sort $(wildcard $(srcdir)/sql/*.sql))))
ISOLATION = $(basename $(notdir \
	$(sort $(wildcard $(srcdir)/test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=$(srcdir)/test
EXTRA_CLEAN = $(UNIT_BUILD) test/output output_iso

UNIT_BUILD = test/build

# The bitcode for JIT inlining needs clang, and nothing here gains from it.
override with_llvm := $(or $(with_llvm),no)

PG_CONFIG ?= pg_config
# Debian's client has the makefiles too, but no headers.
ifneq ($(wildcard $(shell \
	$(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h),)
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
endif

ifneq ($(PGXS),)
include $(PGXS)

ifeq ($(OBJS),)
$(error no source files in "$(srcdir)/extension/src")
endif

# PGXS knows of no headers, and Debian's is built without dependency tracking.
$(OBJS): $(wildcard $(srcdir)/extension/src/*.h \
	$(srcdir)/extension/src/ring/*.h) $(srcdir)/Makefile | directories
$(shlib): $(srcdir)/extension/src/exports.map

$(DATA_built): $(SQL_PARTS) $(srcdir)/Makefile | directories
	cat $(SQL_PARTS) >$@

# As targets they would be found in $(srcdir), and so would be what an earlier
# build left there.
BUILT_THERE = $(if $(filter-out $(CURDIR),$(abspath $(srcdir))), \
	$(wildcard $(srcdir)/extension/src/*.o $(srcdir)/$(DATA_built)))

directories:
	$(if $(strip $(BUILT_THERE)), \
		$(error "$(srcdir)" was built in: run "make clean" there first))
	@mkdir -p $(sort $(dir $(OBJS)))

# ---------- the documentation ----------
#
# DOCS of PGXS would put our files, design.md for one, among those of all other
# extensions, and uninstall would miss them: they get a folder of their own.
# There the guides stand beside the README, and no sources, so links to the
# guides are made shorter and those to the sources become plain text.

ifdef docdir
DOC_DIR = $(DESTDIR)$(docdir)/extension/shardring
DOC_FILES = $(srcdir)/README.md $(wildcard $(srcdir)/extension/doc/*.*)
DOC_EXAMPLES = $(wildcard $(srcdir)/extension/doc/examples/*.py \
	$(srcdir)/extension/doc/examples/*.sh)

install: install-docs
uninstall: uninstall-docs

install-docs:
	$(MKDIR_P) '$(DOC_DIR)/examples'
	$(INSTALL_DATA) $(DOC_FILES) '$(DOC_DIR)/'
	$(INSTALL_SCRIPT) $(DOC_EXAMPLES) '$(DOC_DIR)/examples/'
	sed -i.orig -E -e 's,\]\(extension/doc/,](,g' \
		-e 's,\[([^]]*)\]\((\.\./)+(src|sql|test)[^)]*\),\1,g' '$(DOC_DIR)'/*.md
	rm -f '$(DOC_DIR)'/*.md.orig

uninstall-docs:
	rm -f $(addprefix '$(DOC_DIR)'/,$(notdir $(DOC_FILES))) \
		$(addprefix '$(DOC_DIR)'/examples/,$(notdir $(DOC_EXAMPLES)))
	rmdir '$(DOC_DIR)/examples' '$(DOC_DIR)' || true
endif
else
srcdir = $(patsubst %/,%,$(dir $(firstword $(MAKEFILE_LIST))))

all install installcheck uninstall clean:
	@echo "$(PG_CONFIG) knows no server headers:" \
		"install postgresql-server-dev-15, or say PG_CONFIG=..." >&2
	@exit 1
endif

# ---------- the pure part by itself ----------
#
# Every test/unit/test_*.c is a program; other files there belong to all of
# them.  The pure part is extension/src/ring.  They are built with checks for
# undefined behaviour; the address sanitizer is left out because it does not
# start under every kernel: UNIT_CFLAGS=-fsanitize=address,undefined adds it.

UNIT_CFLAGS ?= -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
UNIT_ALL_CFLAGS = -std=gnu11 -Wall -Wextra -Wshadow -Wmissing-prototypes \
	-Wdeclaration-after-statement $(UNIT_CFLAGS) $(COPT) \
	-Iextension/src/ring -Itest/unit

UNIT_PROGRAMS = $(patsubst test/unit/%.c,$(UNIT_BUILD)/%, \
	$(wildcard test/unit/test_*.c))
UNIT_SHARED = $(patsubst test/unit/%.c,$(UNIT_BUILD)/%.o, \
	$(filter-out test/unit/test_%.c,$(wildcard test/unit/*.c)))
UNIT_PURE = $(patsubst extension/src/ring/%.c,$(UNIT_BUILD)/pure/%.o, \
	$(wildcard extension/src/ring/*.c))
UNIT_HEADERS = $(wildcard extension/src/ring/*.h test/unit/*.h)

unit-programs: $(UNIT_PROGRAMS)

$(UNIT_PROGRAMS): $(UNIT_BUILD)/%: \
		$(UNIT_BUILD)/%.o $(UNIT_SHARED) $(UNIT_PURE)
	$(CC) $(UNIT_ALL_CFLAGS) -o $@ $^ -lcmocka -lcrypto -lm

$(UNIT_BUILD)/pure/%.o: extension/src/ring/%.c $(UNIT_HEADERS) Makefile
	@mkdir -p $(@D)
	$(CC) $(UNIT_ALL_CFLAGS) -c -o $@ $<

$(UNIT_BUILD)/%.o: test/unit/%.c $(UNIT_HEADERS) Makefile
	@mkdir -p $(@D)
	$(CC) $(UNIT_ALL_CFLAGS) -c -o $@ $<

# ---------- running things ----------

export PG_CONFIG REGRESS ISOLATION PROVE_TESTS KEEP

test:
	@$(srcdir)/test/run.sh unit regress isolation tap

test-unit test-regress test-isolation test-tap: test-%:
	@$(srcdir)/test/run.sh $*

test-hostile test-majors test-analysers test-asan test-jit: test-%:
	@$(srcdir)/test/lanes/$*.sh

test-faults:
	@PROVE_TESTS="test/t/crash.pl test/t/faults.pl \
		test/t/disk_full.pl" $(srcdir)/test/run.sh tap

coverage:
	@$(srcdir)/test/lanes/coverage.sh

fuzz:
	@$(srcdir)/test/lanes/fuzz.sh $(SECONDS)

demo:
	@$(srcdir)/test/demo/demo.sh

demo-proxy:
	@$(srcdir)/test/demo/demo-proxy.sh

bench:
	@$(srcdir)/test/bench/run.sh

format:
	@.ci/format $(wildcard extension/src/*.[ch] \
		extension/src/ring/*.[ch] test/unit/*.[ch])

.PHONY: all install installcheck uninstall clean directories \
	install-docs uninstall-docs unit-programs \
	test test-unit test-regress test-isolation test-tap test-hostile \
	test-majors test-analysers test-asan test-jit test-faults coverage fuzz \
	demo demo-proxy bench format
