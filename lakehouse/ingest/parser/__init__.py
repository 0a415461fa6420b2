"""Parser of every source: numbered lines to typed rows, with a reason for those that are rejected.

parser.py        the one way of all sources
field_map.py     which text of a record each wanted field is
plain_lines.py   plain lines -> texts, in Arrow; json_shapes.py, json_lists.py: of JSON
record_texts.py  other lines -> texts, one by one; json_record.py: of JSON; avro.py: an Avro record -> JSON
message_texts.py texts that stand beside the value of a message
usual_texts.py   texts -> texts of values, null where they mean none
plain_values.py  texts, and values of Parquet -> typed columns, in Arrow
parquet_rows.py  rows of Parquet files -> typed rows, and their JSON
shown_offsets.py local times that come twice -> with the offset that the order of their file shows
row_values.py    other texts -> values or a verdict, one by one; texts.py: one text; verdicts.py: the sentences
"""
