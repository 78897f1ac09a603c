-- What the scripts need of a message whose record and state were read. The state of a long one has it (lib/head_word), and
-- that counts: where a script that changes the priority was cut off, the record may have the one before.
-- needs: stated_head, as_head, read_record
-- gives: head_in
local function head_in(record, text)
  local birth, flags, expires, lane, needs = stated_head(text)
  if birth then
    return as_head(birth, flags, expires > 0 and expires or nil, lane, needs)
  end
  return read_record(record)
end
