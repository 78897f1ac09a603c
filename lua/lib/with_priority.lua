-- A record with this priority: the one byte of it that may change.
-- needs: EXPIRES
-- gives: with_priority
local function with_priority(record, priority)
  local flags = record:byte(8)
  if not flags or flags % EXPIRES == priority then -- it may be damaged
    return record
  end
  return record:sub(1, 7) .. string.char(flags - flags % EXPIRES + priority) .. record:sub(9)
end
