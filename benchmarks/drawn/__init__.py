"""Five hundred functions of public repositories that use NumPy: what share `weft.jit` compiles.

The rules were written down before the list was drawn, and the list before anything was mended.

Repositories. Those of `repositories.txt` at the commit there: libraries and programs of many fields
(signals, geometry, statistics, astronomy, chemistry, learning, control, images, graphs).

Functions. Each `def` at the top of a `.py` file that imports NumPy and has no part of its path
that begins with `test`, if
- it has one to six parameters, no decorator, no starred parameter, no `yield`, `await`, `global`;
- its text has three statements at least and names an attribute of NumPy twice at least;
- each name that it reads is a parameter or variable, NumPy, `math`, `warnings`, `itertools`,
  `functools`, a builtin function without effects on the world, or is defined at the top of the
  same file by a function or an assignment of which the same is true;
- it mentions no `np.random`, no files, no name that starts with two underscores.
So it runs without the rest of its repository.

Inputs. There are none in public files, so they are searched: 400 tries at random, of arrays of
floats, integers and bools, numbers, lists, defaults and small functions, chosen by what names and
annotations say. The first are taken for which NumPy ends without an error and gives finite numbers,
the same ones twice. A function for which none are found is passed over.

Drawing. All functions in random order (seed 23), no two of the same text, at most 30 of a
repository, until there are 500 with inputs.

`draw.py` makes the list, `functions.jsonl`: repository, path and name of each function and the
seed of its inputs. The functions' text stays where it is. `python -m benchmarks.drawn CHECKOUTS`
reads it from git directories (CHECKOUTS/owner+name/repo) and says what became of every function:
right, refused, wrong or an error.
"""
