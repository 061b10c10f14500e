"""Elementary and special functions as straight-line vector arithmetic.

Comes in: a `Machine` (what can compute) and its operand handles. Goes out: one handle, the value of
the function. `table.FUNCTIONS` names every function; nothing here loads, stores, loops or calls.

Promises: one text for float32 and float64, errors of about one unit in the last place (the bounds
are in the tests), IEEE special values, and no subnormal intermediate on the way to a normal result.
The pairs and magic additions need strict IEEE arithmetic: no fast-math flag may reach them.
"""
