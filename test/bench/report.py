"""report.py: gathers figures; writes the Markdown table and the chart."""
import importlib.metadata, math, pathlib, platform, re, subprocess, time

DOC = pathlib.Path(__file__).parents[2] / 'extension' / 'doc'
BEGIN = '<!-- figures: written by make bench -->\n'
END = '<!-- end of figures -->\n'


class Report:
    """Figures under headings, bounds of the design, curves for the chart."""

    def __init__(self):
        self.rows, self.bounds, self.curves = [], [], {}
        self.started = time.monotonic()

    def add(self, heading, name, figure, remark=''):
        self.rows.append((heading, name, figure, remark))
        print(f'{name}: {figure} {remark}', flush=True)

    def bound(self, name, most, value, unit=''):
        """A figure that may not be above a bound."""
        self._bound(name, f'<= {most:g}', f'{value:.3g}', value <= most, unit)

    def least(self, name, least, value, unit=''):
        """A figure that may not be below a bound."""
        self._bound(name, f'>= {least:g}', f'{value:.3g}', value >= least,
                    unit)

    def _bound(self, name, wanted, value, held, unit):
        unit = f' {unit}' if unit else ''
        self.bounds.append((name, wanted + unit, value + unit,
                            'yes' if held else '**no**'))
        print(f'{name}: {value}{unit}, wanted {wanted}', flush=True)

    def markdown(self, session, command):
        """One table: the bounds first, then everything else."""
        lines = [BEGIN, f'\n`{command}`, {time.strftime("%Y-%m-%d")}, '
                 f'{time.monotonic() - self.started:.0f} seconds, on:\n\n']
        lines += [f'- {line}\n' for line in _machine(session)]
        lines += ['\n| what | figure | compared | held |\n|---|---|---|---|\n',
                  '| **Bounds** | | | |\n']
        lines += [f'| {name} | {value} | {wanted} | {held} |\n'
                  for name, wanted, value, held in self.bounds]
        heading = None
        for row in self.rows:
            if row[0] != heading:
                heading = row[0]
                lines.append(f'| **{heading}** | | | |\n')
            lines.append(f'| {row[1]} | {row[2]} | {row[3]} | |\n')
        return ''.join(lines) + '\n' + END

    def save(self, table):
        page = DOC / 'performance.md'
        text = page.read_text(encoding='utf-8')
        before, _, rest = text.partition(BEGIN)
        page.write_text(before + table + rest.partition(END)[2],
                        encoding='utf-8')
        (DOC / 'performance.svg').write_text(chart(self.curves),
                                             encoding='utf-8')


def _machine(session):
    with open('/proc/cpuinfo', encoding='utf-8') as info:
        model = re.search(r'model name\s*: (.*)', info.read())
    with open('/proc/loadavg', encoding='ascii') as load:
        average = load.read().split()[0]
    yield (f"{model.group(1) if model else platform.machine()}, "
           f"{session.run('SHOW max_parallel_workers_per_gather')[0]} "
           f"parallel workers unless said, load average {average} at the end")
    yield session.run('SELECT version()')[0]
    yield subprocess.run(['openssl', 'version'], capture_output=True,
                         text=True, check=False).stdout.strip()
    yield f'Linux {platform.release()}, Python {platform.python_version()}'
    yield (f"PL/Proxy {_extension(session, 'plproxy')}, uhashring "
           f"{_uhashring()}, Citus {_extension(session, 'citus')}")


def _extension(session, name):
    """The version that was measured."""
    return session.run(f'''
        SELECT coalesce(max(e.installed_version), 'not installed')
        FROM pg_available_extensions AS e WHERE e.name = '{name}' ''')[0]


def _uhashring():
    """Its version, which only a package that was installed properly knows."""
    try:
        return importlib.metadata.version('uhashring')
    except importlib.metadata.PackageNotFoundError:
        return 'of unknown version'


# ---------- the chart ----------

WIDTH, HEIGHT, LEFT, TOP, GAP = 760, 180, 60, 40, 60
COLOURS = ('#1f6f8b', '#c0392b', '#7f8c8d', '#d68910', '#7d3c98', '#2e8b57')


def chart(curves):
    """One panel a set of curves, one below the other, both axes logarithmic."""
    panels = [_panel(title, lines, TOP + i * (HEIGHT + GAP))
              for i, (title, lines) in enumerate(curves.items())]
    height = TOP + len(panels) * (HEIGHT + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            f'{height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
            + ''.join(panels) + '</svg>\n')


def _panel(title, lines, top):
    xs = [x for line in lines.values() for x, _ in line]
    ys = [max(y, 1e-9) for line in lines.values() for _, y in line]
    x_axis = _axis(min(xs), max(xs), LEFT, WIDTH - 220)
    # whole powers of ten, so that what is flat looks flat
    low, high = (10.0 ** f(math.log10(y)) for f, y in (
        (math.floor, min(ys)), (math.ceil, max(ys))))
    y_axis = _axis(low, high, top + HEIGHT, top)
    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">CPU time a '
             f'call against {title}</text>\n']
    for x in _powers(min(xs), max(xs)):
        parts.append(_line(x_axis(x), top, x_axis(x), top + HEIGHT, '#ddd')
                     + _text(x_axis(x), top + HEIGHT + 16, f'{x:,}', 'middle'))
    for y in _powers(low * 1e9, high * 1e9):
        at = y_axis(y / 1e9)
        parts.append(_line(LEFT, at, WIDTH - 220, at, '#ddd')
                     + _text(LEFT - 6, at + 4, _seconds(y), 'end'))
    for (name, line), colour, at in zip(
            lines.items(), COLOURS, _apart(lines, y_axis)):
        points = ' '.join(f'{x_axis(x):.1f},{y_axis(max(y, 1e-9)):.1f}'
                          for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" '
                     f'stroke="{colour}" stroke-width="2"/>\n'
                     f'<text x="{WIDTH - 210}" y="{at:.1f}" fill="{colour}">'
                     f'{name}</text>\n')
    return ''.join(parts)


def _axis(low, high, start, end):
    """From a value to where it is drawn, with some room at both ends."""
    low, high = math.log10(low) - 0.15, math.log10(high) + 0.15
    return lambda value: (
        start + (math.log10(value) - low) / (high - low) * (end - start))


def _powers(low, high):
    """The powers of ten near a span."""
    return [10 ** e for e in range(math.floor(math.log10(low) + 0.85),
                                   math.ceil(math.log10(high) - 0.85) + 1)]


def _apart(lines, y_axis):
    """Where the names stand: at the end of their line, not on each other."""
    wanted = sorted((y_axis(max(line[-1][1], 1e-9)) + 4, i)
                    for i, line in enumerate(lines.values()))
    places, last = {}, -math.inf
    for at, i in wanted:
        last = places[i] = max(at, last + 14)
    return [places[i] for i in range(len(places))]


def _seconds(nanoseconds):
    for unit, size in (('ms', 1e6), ('us', 1e3), ('ns', 1)):
        if nanoseconds >= size:
            return f'{nanoseconds / size:g} {unit}'
    return f'{nanoseconds:g} ns'


def _line(x1, y1, x2, y2, colour):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}"/>\n')


def _text(x, y, text, anchor):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="#555">{text}</text>\n')
