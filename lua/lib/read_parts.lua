-- Reads the requested parts of messages into `records` and `stories`, false if a part is missing, up to about half a
-- megabyte. Returns how many messages it read.
-- needs: keys: messages, history; args: record, story
-- gives: read_parts
local MOST = 524288 -- bytes, or one message (I9)

-- The heads of records; those of long ones are in the states.
local function read_heads(ids, texts, records)
  -- needs: head_bytes
  local short, places = {}, {}
  for n, id in ipairs(ids) do
    records[n] = head_bytes(texts[n])
    if records[n] and redis.call('HEXISTS', messages, id) == 0 then
      records[n] = false
    elseif not records[n] then
      short[#short + 1], places[#places + 1] = id, n
    end
  end
  for n, found in ipairs(#short > 0 and redis.call('HMGET', messages, unpack(short)) or {}) do
    records[places[n]] = found and found:sub(1, 14)
  end
end

local function read_parts(ids, texts, records, stories)
  local kept, spent, found = #ids, 0, {}
  if record == 'head' then
    read_heads(ids, texts, records)
  elseif record == 'whole' then
    -- needs: read_records
    kept = 0
    while kept < #ids and spent <= MOST do
      local first = kept + 1
      found, kept = read_records(found, ids, texts, first, MOST - spent)
      for n = first, kept do
        records[n] = found[n]
        spent = spent + #(found[n] or '')
      end
    end
  end
  if story ~= 'yes' then
    return kept
  end
  spent = 0
  for n = 1, kept do
    stories[n] = texts[n] and redis.call('HGET', history, ids[n])
    spent = spent + #(stories[n] or '')
    if spent > MOST then
      for over = n + 1, kept do
        records[over] = nil
      end
      return n
    end
  end
  return kept
end
