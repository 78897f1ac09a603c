-- The head of a message: the part of its record that the scripts need, from its record and state. The state of a long one
-- has it (lib/head_word), and that counts: if a change of priority was cut off, the record may have the old one.
-- needs: stated_head, as_head, read_record
-- gives: head_in
local function head_in(record, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
  end
  return read_record(record)
end
