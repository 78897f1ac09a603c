-- Reads the head of a record (lib/record). In a file of its own, since every send defines the function that packs it.
-- needs: EXPIRES, lanes_of
-- gives: as_head, read_record
local TRANSIENT = 0x80

local function unpack_number(text, first, width)
  local value = 0
  for i = first, first + width - 1 do
    value = value * 256 + text:byte(i)
  end
  return value
end

local function has_expiry(record)
  return math.floor((record:byte(8) or 0) / EXPIRES) % 2 == 1
end

-- lane: the lane of its key; needs: the lane of its dependency.
local function as_head(birth, flags, expires, lane, needs)
  return {
    birth = birth, priority = math.min(flags % EXPIRES, 9), expires = expires, transient = flags >= TRANSIENT,
    lane = lane, needs = needs,
  }
end

-- Reads the head of a record. A damaged record must still reach the dead-letter queue, so it gets defaults.
local function read_record(record)
  if #record < 14 and (#record < 8 or has_expiry(record)) then
    return { birth = 0, priority = 4 }
  end
  local flags, expires = record:byte(8), has_expiry(record) and unpack_number(record, 9, 6) or nil
  local lane, needs = lanes_of(record)
  return as_head(unpack_number(record, 1, 7), flags, expires, lane, needs)
end
