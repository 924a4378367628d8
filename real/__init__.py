"""`make real`: the whole of it tried on an account of Aliyun, told as a table, and taken away again."""
