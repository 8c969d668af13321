/* Take columns out of a list of dicts, as fields.py and interner.py do without a compiler.
 *
 * It sees Python objects that are loaded already, of exact built-in types, and looks at them
 * through Python's own stable interface, which checks every index. References are borrowed, and
 * nothing is called that could run Python code or change an object. At the first object that is
 * not as it expects it gives up; the caller then goes the slow way, which knows all the messages.
 */

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Raise it when the meaning changes: compiled.py refuses a library of another version. */
EXPORT int32_t snapreport_columns_version(void) { return 1; }

/* Return a borrowed reference to rows[index][key], or NULL, and say whether the row is a dict. */
static PyObject *field(PyObject *rows, Py_ssize_t index, PyObject *key, int *is_dict)
{
    PyObject *row = PyList_GetItem(rows, index);
    *is_dict = row != NULL && PyDict_CheckExact(row);
    if (!*is_dict) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *value = PyDict_GetItemWithError(row, key);
    if (value == NULL)
        PyErr_Clear();
    return value;
}

/* Write the integer rows[i][key] to out[i] for each of the rows.
 *
 * out has room for `length` numbers, and `length` must be that of the list. Returns 1, or 0 where
 * something is no dict, has no such key, or has no integer of 64 bits there.
 */
EXPORT int32_t snapreport_integers(PyObject *rows, PyObject *key, int64_t *out, Py_ssize_t length)
{
    if (!PyList_CheckExact(rows) || PyList_Size(rows) != length || !PyUnicode_CheckExact(key))
        return 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        int is_dict, overflow;
        PyObject *value = field(rows, i, key, &is_dict);
        if (value == NULL || !(PyLong_CheckExact(value) || PyBool_Check(value)))
            return 0;
        out[i] = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow)
            return 0;
    }
    return 1;
}

static uint64_t hash_items(PyObject *list, Py_ssize_t size)
{
    uint64_t hash = (uint64_t)size;
    for (Py_ssize_t i = 0; i < size; i++) {
        hash ^= (uint64_t)(uintptr_t)PyList_GetItem(list, i) >> 4;
        hash *= UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

static int same_items(PyObject *one, PyObject *other, Py_ssize_t size)
{
    if (PyList_Size(other) != size)
        return 0;
    for (Py_ssize_t i = 0; i < size; i++)
        if (PyList_GetItem(one, i) != PyList_GetItem(other, i))
            return 0;
    return 1;
}

enum { RECENT = 1024 };

/* How many items of lists may be looked at for each row: it is 1 for a usual file, and without an
 * end for one with a few endless lists in turn. The slow way knows each list by itself. */
enum { MOST_ITEMS = 1024 };

/* Group the lists rows[i][key] by having the same objects in them.
 *
 * group[i] becomes the number of the row's group, -1 where it has no such key; first[g] becomes
 * the first row of group g, and groups are numbered in the order of those. Each of the arrays has
 * `length` places, the length of the list, but table, which has `slots`, a power of two greater
 * than `length`, all -1. Returns how many groups there are, or -1 where a row is no dict or what
 * is there is no list.
 */
EXPORT Py_ssize_t snapreport_groups(PyObject *rows, PyObject *key, int32_t *group, int32_t *first,
                                    uint64_t *hashes, int32_t *table, Py_ssize_t length,
                                    Py_ssize_t slots)
{
    struct { PyObject *list; int32_t group; } recent[RECENT] = {{NULL, 0}};
    Py_ssize_t groups = 0;
    uint64_t left = MOST_ITEMS * ((uint64_t)(length > 0 ? length : 0) + MOST_ITEMS);

    if (!PyList_CheckExact(rows) || PyList_Size(rows) != length || !PyUnicode_CheckExact(key))
        return -1;
    if (length >= INT32_MAX || slots <= length || (slots & (slots - 1)) != 0)
        return -1;
    for (Py_ssize_t i = 0; i < length; i++) {
        int is_dict;
        PyObject *list = field(rows, i, key, &is_dict);
        if (!is_dict)
            return -1;
        if (list == NULL) {
            group[i] = -1;
            continue;
        }
        if (!PyList_CheckExact(list))
            return -1;
        /* The events of one allocation share their list, and come close to one another. */
        const size_t place = ((uintptr_t)list >> 4) % RECENT;
        if (recent[place].list == list) {
            group[i] = recent[place].group;
            continue;
        }
        const Py_ssize_t size = PyList_Size(list);
        if (size < 0 || (uint64_t)size > left)
            return -1;
        left -= (uint64_t)size;
        const uint64_t hash = hash_items(list, size);
        size_t slot = (size_t)hash & (size_t)(slots - 1);
        int32_t found = -1;
        while (found < 0 && table[slot] >= 0) {
            const int32_t candidate = table[slot];
            if (hashes[candidate] == hash) {
                PyObject *other = field(rows, first[candidate], key, &is_dict);
                if (other != NULL && PyList_CheckExact(other) && same_items(list, other, size))
                    found = candidate;
            }
            slot = (slot + 1) & (size_t)(slots - 1);
        }
        if (found < 0) { /* the slot at which the search ended is free */
            found = (int32_t)groups++;
            table[slot] = found;
            first[found] = (int32_t)i;
            hashes[found] = hash;
        }
        recent[place].list = list;
        recent[place].group = found;
        group[i] = found;
    }
    return groups;
}
