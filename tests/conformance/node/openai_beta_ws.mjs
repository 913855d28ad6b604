// The beta twin of OpenAIRealtimeWS: the dialect asked for by a header.

import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/beta/realtime/ws';

import { job } from './common.mjs';
import { BETA, talk } from './openai_talk.mjs';

const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: 'none' });
await talk(new OpenAIRealtimeWS({ model: job.model }, client), BETA);
