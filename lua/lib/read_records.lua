-- Reads the records of ids[first] and those after it into `records`: a page of them, and of long ones `most` bytes and the
-- record that exceeds them. Their lengths are in the states (lib/head_word). Returns the records, and the position of the
-- last.
-- needs: keys: messages
-- gives: read_records
local PAGE = 250

local function read_records(records, ids, texts, first, most)
  local long = first > 1 or #ids > PAGE
  for n = 1, #ids do
    long = long or texts[n] and texts[n]:find(' head=')
  end
  if not long then
    return redis.call('HMGET', messages, unpack(ids)), #ids
  end
  local page, bytes, last = {}, 0, first - 1
  local stop = math.min(#ids, last + PAGE)
  while last < stop and bytes <= most do
    last = last + 1
    page[last - first + 1] = ids[last]
    if texts[last] then
      bytes = bytes + (tonumber(texts[last]:match(' head=%S+/(%d+)')) or 0)
    end
  end
  for at, record in ipairs(redis.call('HMGET', messages, unpack(page))) do
    records[first - 1 + at] = record
  end
  return records, last
end
