-- The field in the state of a message whose record is long: the head of the record, and its length. So scripts need not
-- read the body, since Redis cannot read a part of a hash's field. Empty for a short record.
--    head=birth/flags/expiry/length[ lane=N][ needs=N]
-- expiry 0: none; lane, needs: the lanes of its key and of its dependency (lib/lanes_in)
-- needs: LONG, read_record
-- gives: head_word
local function head_word(record)
  if #record <= LONG then
    return ''
  end
  local head = read_record(record)
  local lanes = head.lane and string.format(' lane=%.0f', head.lane) or ''
  lanes = lanes .. (head.needs and string.format(' needs=%.0f', head.needs) or '')
  return string.format(' head=%.0f/%d/%.0f/%d', head.birth, record:byte(8), head.expires or 0, #record) .. lanes
end
