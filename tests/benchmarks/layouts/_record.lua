-- A record: 7 bytes birth (millisecond * 4096 + number), 1 byte flags (priority; 0x10: 6 bytes of
-- expiry follow), then the payload.
local EXPIRES = 0x10

local function pack_number(value, width)
  local bytes = {}
  for i = width, 1, -1 do
    bytes[i] = value % 256
    value = math.floor(value / 256)
  end
  return string.char(unpack(bytes))
end

local function unpack_number(text, first, width)
  local value = 0
  for i = first, first + width - 1 do
    value = value * 256 + text:byte(i)
  end
  return value
end

local function priority_of(record)
  return record:byte(8) % EXPIRES
end

local function expiry_of(record)
  return record:byte(8) >= EXPIRES and unpack_number(record, 9, 6) or nil
end
